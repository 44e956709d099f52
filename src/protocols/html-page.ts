import { hash } from 'node:crypto'
import type { ToolError } from '#kernel/base/errors'
import type { HttpReply } from './http-exchange.ts'

/*
 * HTML pages that the server renders for people: the style, the script, the security headers and an escaping
 * template tag. Used by the start page, sign-in, consent, challenge and MCP pages, and by approval pages of a server without a console.
 * Invariant: every interpolated text is escaped, and the content policy allows only the one style and the one
 * script of this module.
 */

/** Colours and fonts of the console, which may not be built. A test compares them with `console/src/styles/tokens.css`. */
const TOKENS = {
  surface: 'light-dark(#ffffff, #101214)',
  sunken: 'light-dark(#f9fafa, #0c0e10)',
  line: 'light-dark(#e7e9ec, #1f2327)',
  control: 'light-dark(#828993, #67707a)',
  ink: 'light-dark(#14171b, #eceef0)',
  'ink-2': 'light-dark(#464d56, #abb2bb)',
  accent: 'light-dark(#3152a3, #93b0f3)',
  focus: 'light-dark(#3b63c9, #86a8f8)',
  sans: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  mono: 'ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
} as const

const RULES = `
*{box-sizing:border-box;margin:0}
html{color-scheme:light dark;text-size-adjust:100%}
html[data-theme=light]{color-scheme:light}html[data-theme=dark]{color-scheme:dark}
body{background:var(--surface);color:var(--ink);font:400 .9375rem/1.375rem var(--sans);overflow-wrap:anywhere}
main{display:grid;grid-template-columns:minmax(0,1fr);gap:1rem;max-width:40rem;margin:0 auto;padding:1rem}
header{display:flex;align-items:center;gap:.5rem;padding-bottom:.75rem;border-bottom:1px solid var(--line);font-weight:600}
header svg{width:1.25rem;height:1.25rem}
h1{font:600 1.25rem/1.75rem var(--sans)}h2{font:600 .9375rem/1.25rem var(--sans)}
a{color:var(--accent)}ul{padding-left:1.25rem}
:focus-visible{outline:2px solid var(--focus);outline-offset:2px}
code,pre{font:400 .8125rem/1.25rem var(--mono)}
pre{padding:.5rem .75rem;border:1px solid var(--line);border-radius:.375rem;background:var(--sunken);white-space:pre-wrap}
dl>div{display:grid;grid-template-columns:8rem minmax(0,1fr);gap:.75rem;padding:.4375rem 0;border-top:1px solid var(--line)}dt{color:var(--ink-2)}
form{display:flex;flex-wrap:wrap;gap:.5rem}label,input{width:100%}
input,button{min-height:2.75rem;padding:0 1rem;border:1px solid var(--control);border-radius:.375rem;background:var(--sunken);color:inherit;font:inherit}
`

/** The style of all pages as one text, because the content policy allows exactly this text by its hash. */
export const PAGE_STYLE = [
  `:root{${Object.entries(TOKENS)
    .map(([name, value]) => `--${name}:${value}`)
    .join(';')}}`,
  ...RULES.trim().split('\n'),
].join('')

/** Logo: a collet seen from the front. */
const MARK =
  '<svg viewBox="0 0 20 20" aria-hidden="true"><mask id="slits"><rect width="20" height="20" fill="white"/><g stroke="black" stroke-width="1.6"><path d="M10 10V0"/><path d="M10 10V0" transform="rotate(120 10 10)"/><path d="M10 10V0" transform="rotate(240 10 10)"/></g><circle cx="10" cy="10" r="3.1" fill="black"/></mask><circle cx="10" cy="10" r="8.5" fill="currentColor" mask="url(#slits)"/></svg>'

/** Applies the theme that was chosen in the console, and rewrites UTC times in the browser's own time zone. */
const SCRIPT = `try{const t=localStorage.getItem('collet-theme');if(t)document.documentElement.dataset.theme=t}catch{}
for(const t of document.querySelectorAll('time'))t.textContent=new Date(t.dateTime).toLocaleString(undefined,{year:'numeric',month:'short',day:'numeric',hour:'numeric',minute:'2-digit',timeZoneName:'short'})`

/**
 * Nothing may load or frame the page, only the style and the script above apply, and forms may post to this
 * server or not at all.
 */
function contentSecurityPolicy(formAction: "'none'" | "'self'"): string {
  return [
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', PAGE_STYLE, 'base64')}'`,
    `script-src 'sha256-${hash('sha256', SCRIPT, 'base64')}'`,
    "base-uri 'none'",
    `form-action ${formAction}`,
    "frame-ancestors 'none'",
  ].join('; ')
}

/** Headers of every page and of every redirect between pages. They forbid storing, framing and referrers. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': contentSecurityPolicy("'none'"),
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
} as const

/** Headers of pages with a form: with `no-referrer` a browser would send `Origin: null`, which the host guard refuses. */
export const FORM_PAGE_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy': contentSecurityPolicy("'self'"),
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const

/** Trusted HTML that is inserted unescaped. Only this module creates it. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Template tag: texts are escaped, `Html` is inserted unescaped, lists are concatenated. */
export function html(
  parts: TemplateStringsArray,
  ...values: readonly (string | number | Html | readonly Html[])[]
): Html {
  return new Html(String.raw({ raw: parts }, ...values.map(toText)))
}

function toText(value: string | number | Html | readonly Html[]): string {
  if (value instanceof Html) return value.text
  return typeof value === 'object' ? value.map(toText).join('') : escapeHtml(String(value))
}

/** Not created with the template tag, because bundlers rewrite templates that contain this end tag. */
const SCRIPT_ELEMENT = new Html(`<script>${SCRIPT}</script>`)

/** A time that the browser shows in its own time zone. */
export function timeHtml(ms: number): Html {
  const iso = new Date(ms).toISOString()
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}

/** A definition list with one fact per line. */
export function factsHtml(facts: readonly (readonly [string, string | Html])[]): Html {
  return html`<dl>${facts.map(([name, fact]) => html`<div><dt>${name}</dt><dd>${fact}</dd></div>`)}</dl>`
}

/** A page; `title` is its heading and the title of the window. */
export function pageReply(
  status: number,
  { title, content }: { readonly title: string; readonly content: Html },
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title><style>${new Html(PAGE_STYLE)}</style></head>
<body><main><header>${new Html(MARK)}Collet</header>
<h1>${title}</h1>
${content}
</main>${SCRIPT_ELEMENT}</body></html>
`
  return { status, headers: { ...PAGE_HEADERS, ...headers }, body: page.text }
}

/** A page with one sentence. */
export function textPage(status: number, title: string, text: string): HttpReply {
  return pageReply(status, { title, content: html`<p>${text}</p>` })
}

/** Shows why a request was rejected, on routes that people open in a browser. */
export function refuseOnPage(_request: unknown, error: ToolError, status: number): HttpReply {
  return textPage(status, 'Not possible', error.message)
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
}
