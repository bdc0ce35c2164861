"""One run: from settings to what it can begin with, its execution, and the files that it leaves."""
