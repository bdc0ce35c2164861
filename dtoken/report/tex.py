"""What LaTeX asks of texts: letters of its own escaped, letters that its fonts lack as mathematics."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESCAPED = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "θ": "$\\theta$",
    "−": "$-$",
    "–": "--",
}
PREAMBLE = b"\\providecommand{\\mathdefault}[1]{#1}%\n"  # what matplotlib wants a document to define


def escaped(text: str) -> str:
    """A text as LaTeX takes it.

    Examples
    --------
    >>> escaped("smooth_hinge & 5 %")
    'smooth\\\\_hinge \\\\& 5 \\\\%'
    """
    return "".join(ESCAPED.get(letter, letter) for letter in text)


def for_tex(figure: "Figure") -> None:
    """Make the texts of a figure, which are drawn as they are elsewhere, ones that LaTeX draws the same way."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(escaped(text.get_text()))
