// The search of the site, also for pages that are opened from the disk: mkdocs' own script fetches its index, which
// browsers refuse there. Here the index is a script, pages.js, that docs/site_search.py makes of it.

const load = (name) =>
  new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${base_url}/search/${name}`;
    script.onload = resolve;
    document.head.append(script);
  });

function find(index, text) {
  const words = lunr.tokenizer(text);
  const hits = index.query((query) => {
    query.term(words, { boost: 10 });
    query.term(words, { wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false });
  });
  return words.length ? hits.map(({ ref }) => pages.find(({ location }) => location === ref)) : [];
}

function shown({ location, title, text }) {
  const link = Object.assign(document.createElement("a"), { href: `${base_url}/${location}`, textContent: title });
  const [article, heading, summary] = ["article", "h3", "p"].map((tag) => document.createElement(tag));
  heading.append(link);
  summary.append(`${text.slice(0, 200)}…`);
  article.append(heading, summary);
  return article;
}

async function search(box) {
  await load("lunr.js");
  await load("pages.js");
  const index = lunr(function () {
    this.ref("location");
    this.field("title", { boost: 5 });
    this.field("text");
    pages.forEach((page) => this.add(page));
  });
  const results = document.getElementById("mkdocs-search-results");
  const show = () => {
    const found = find(index, box.value);
    results.replaceChildren(...(found.length ? found.map(shown) : [results.dataset.noResultsText]));
  };
  box.value = new URLSearchParams(location.search).get("q") ?? "";
  box.oninput = show;
  show();
}

const box = document.getElementById("mkdocs-search-query"); // only the page of results has it
if (box) search(box);
