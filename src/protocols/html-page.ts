import { hash } from 'node:crypto'
import type { HttpReply } from './http-exchange.ts'

/*
 * HTML pages that the server renders for people: the style, the script, the security headers and an escaping
 * template tag.
 * Used by approval links, consent pages, challenge pages and the MCP browser page.
 * Invariant: every interpolated text is escaped, and the content policy allows only the one style and the one
 * script of this module.
 */

/**
 * Equal to the console's values. The console is built separately and may be absent; a test compares the two.
 */
const TOKENS = {
  canvas: 'light-dark(#f5f6f7, #0a0b0d)',
  surface: 'light-dark(#ffffff, #101214)',
  sunken: 'light-dark(#f9fafa, #0c0e10)',
  hover: 'light-dark(#f3f4f6, #171a1d)',
  line: 'light-dark(#e7e9ec, #1f2327)',
  'line-strong': 'light-dark(#d3d7dc, #2d3339)',
  control: 'light-dark(#828993, #67707a)',
  ink: 'light-dark(#14171b, #eceef0)',
  'ink-2': 'light-dark(#464d56, #abb2bb)',
  'ink-3': 'light-dark(#636a74, #878f99)',
  'on-ink': 'light-dark(#ffffff, #101214)',
  accent: 'light-dark(#3152a3, #93b0f3)',
  focus: 'light-dark(#3b63c9, #86a8f8)',
  'tier-pure': 'light-dark(#636a74, #878f99)',
  'tier-read': 'light-dark(#40627d, #8fb3cc)',
  'tier-write': 'light-dark(#7a4d1f, #d8ab7f)',
  'tier-exec': 'light-dark(#b23c0c, #ff8d5f)',
  'tier-exec-bg': 'light-dark(#fdf0e9, #2a1710)',
  failed: 'light-dark(#bb1a3c, #ff7f92)',
  parked: 'light-dark(#875600, #e3b354)',
  'parked-bg': 'light-dark(#fdf5e2, #261d0b)',
  sans: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  mono: 'ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace',
} as const

/** Laid out for a phone first; wider windows show one centred column. */
const RULES = `
*{box-sizing:border-box;margin:0}
html{color-scheme:light dark;text-size-adjust:100%}
html[data-theme=light]{color-scheme:light}html[data-theme=dark]{color-scheme:dark}
body{background:var(--canvas);color:var(--ink);font:400 .9375rem/1.375rem var(--sans);overflow-wrap:anywhere}
main{display:flex;flex-direction:column;max-width:40rem;min-height:100dvh;margin:0 auto;background:var(--surface)}
.top{display:flex;align-items:center;gap:.5rem;height:3.25rem;padding:0 1rem;border-bottom:1px solid var(--line)}
.brand{display:flex;align-items:center;gap:.5rem;margin-right:auto;font:600 .9375rem/1.25rem var(--sans)}
section h2{margin-bottom:.5rem}.top b{font-weight:600;color:var(--ink)}
.mark{width:1.25rem;height:1.25rem}
.body{flex:1;display:grid;grid-template-columns:minmax(0,1fr);gap:1rem;align-content:start;padding:1rem}
h1{font:600 1.25rem/1.75rem var(--sans)}h2{font:500 .8125rem/1.25rem var(--sans)}
a{color:var(--accent)}b,strong{font-weight:500}ul{padding-left:1.25rem}
:focus-visible{outline:2px solid var(--focus);outline-offset:2px;border-radius:.25rem}
code,pre,.mono{font:400 .8125rem/1.25rem var(--mono)}
pre{padding:.5rem .75rem;border:1px solid var(--line);border-radius:.375rem;background:var(--sunken);white-space:pre-wrap}
dl>div{display:grid;grid-template-columns:6rem minmax(0,1fr);gap:.75rem;padding:.4375rem 0;border-top:1px solid var(--line)}
dl>div:last-child{border-bottom:1px solid var(--line)}dt{color:var(--ink-3)}
.args{border:1px solid var(--line-strong);border-radius:.375rem;background:var(--sunken)}
.args>div{grid-template-columns:minmax(0,1fr);gap:.125rem;padding:.5rem .75rem;border:0}
.args>div+div{border-top:1px solid var(--line)}.args dt{font:400 .8125rem/1.25rem var(--mono);color:var(--ink-2)}
.args dd{white-space:pre-wrap}
.argv{display:flex;flex-wrap:wrap;gap:.25rem}
.argv code{padding:0 .375rem;border-radius:.25rem;background:var(--surface);box-shadow:inset 0 0 0 1px var(--line-strong)}
.row{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .5rem}.grow{flex:1}
.soft{color:var(--ink-2)}.dim{color:var(--ink-3)}.strange{padding:.5rem .75rem;border-radius:.375rem;background:var(--parked-bg);color:var(--parked)}
.tool i{font-style:normal;color:var(--ink-2);font-weight:400}
.tier{display:inline-flex;align-items:center;gap:.375rem;height:1.375rem;padding:0 .4375rem;border-radius:.25rem;box-shadow:inset 0 0 0 1px currentColor;font:400 .75rem/1rem var(--sans)}
.tier svg{width:.75rem;height:.75rem;fill:currentColor}.tier .off{opacity:.28}
.tier.pure{color:var(--tier-pure)}.tier.read{color:var(--tier-read)}.tier.write{color:var(--tier-write)}
.tier.exec{color:var(--tier-exec);background:var(--tier-exec-bg);font-weight:600}
summary{min-height:1.5rem;color:var(--ink-2);cursor:pointer}details pre{margin-top:.5rem}
.bar{position:sticky;bottom:0;display:grid;gap:.75rem;padding:.75rem 1rem calc(1rem + env(safe-area-inset-bottom));border-top:1px solid var(--line-strong);background:var(--sunken)}
label{display:block;margin-bottom:.25rem;font:500 .75rem/1rem var(--sans);color:var(--ink-2)}label span{font-weight:400;color:var(--ink-3)}
input{width:100%;height:2.75rem;padding:0 .75rem;border:1px solid var(--control);border-radius:.375rem;background:var(--surface);color:inherit;font:400 1rem/1.25rem var(--sans)}
.acts{display:grid;grid-template-columns:1fr 2fr;gap:.5rem}
button{min-height:3rem;border:1px solid var(--line-strong);border-radius:.625rem;background:var(--surface);color:var(--ink);font:500 1rem/1.25rem var(--sans);cursor:pointer}
button:hover{background:var(--hover)}button.danger{color:var(--failed)}
button.primary,button.primary:hover{border-color:var(--ink);background:var(--ink);color:var(--on-ink)}
.promise{font:400 .75rem/1rem var(--sans);color:var(--ink-3)}
@media(min-width:40rem){main{border-inline:1px solid var(--line)}}
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
  '<svg class="mark" viewBox="0 0 20 20" aria-hidden="true"><mask id="slits"><rect width="20" height="20" fill="white"/><g stroke="black" stroke-width="1.6"><path d="M10 10V0"/><path d="M10 10V0" transform="rotate(120 10 10)"/><path d="M10 10V0" transform="rotate(240 10 10)"/></g><circle cx="10" cy="10" r="3.1" fill="black"/></mask><circle cx="10" cy="10" r="8.5" fill="currentColor" mask="url(#slits)"/></svg>'

/**
 * Times are written in UTC; the script rewrites them in the browser's own time zone and counts down to
 * expiry. It also applies the theme that was chosen in the console. A page without times contains no script.
 */
const SCRIPT = `try{const t=localStorage.getItem('collet-theme');if(t)document.documentElement.dataset.theme=t}catch{}
for(const t of document.querySelectorAll('time'))t.textContent=new Date(t.dateTime).toLocaleString(undefined,{year:'numeric',month:'short',day:'numeric',hour:'numeric',minute:'2-digit',timeZoneName:'short'})
const end=document.querySelector('[data-until]'),two=n=>String(n).padStart(2,'0'),tell=()=>{const s=Math.max(0,Math.ceil((Date.parse(end.dataset.until)-Date.now())/1e3)),h=Math.floor(s/3600);end.textContent='in '+(s?(h?h+':':'')+(h?two(Math.floor(s/60)%60):Math.floor(s/60))+':'+two(s%60):'0:00')}
if(end){tell();setInterval(tell,1e3)}`

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

/** Headers of every page and of every redirect between pages: not stored, not framed, no referrer. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': contentSecurityPolicy("'none'"),
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
} as const

/** With `no-referrer` a browser would send `Origin: null` with the form, which the host guard refuses. */
export const FORM_PAGE_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy': contentSecurityPolicy("'self'"),
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const

/** Trusted HTML that is inserted unescaped; only the `html` tag makes it. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Template tag: texts are escaped, `Html` is inserted as it is, lists are concatenated. */
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

/** Not in a tagged template: bundlers rewrite templates that hold this end tag. */
const SCRIPT_ELEMENT = new Html(`<script>${SCRIPT}</script>`)

/** Elements that need the script. Texts are escaped, so only elements of this module can match. */
const HAS_TIME = /<time |<b data-until=/

/** A time that the browser shows in its own time zone. */
export function timeHtml(ms: number): Html {
  const iso = new Date(ms).toISOString()
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}

/** An expiry time; the browser counts down to it. */
export function countdownHtml(untilMs: number): Html {
  const iso = new Date(untilMs).toISOString()
  return html`<span class="dim">Expires <b data-until="${iso}">at ${iso.slice(11, 16)} UTC</b></span>`
}

/** A definition list, one fact a line. */
export function factsHtml(facts: readonly (readonly [string, string | Html])[]): Html {
  return html`<dl>${facts.map(([name, fact]) => html`<div><dt>${name}</dt><dd>${fact}</dd></div>`)}</dl>`
}

interface PageParts {
  /** Window title, and the page's heading unless `heading` is given. */
  readonly title: string
  readonly content: Html
  readonly heading?: Html
  /** Shown at the right of the top bar. */
  readonly aside?: Html
  /** Stays at the lower edge while the rest scrolls. */
  readonly foot?: Html
}

export function pageReply(
  status: number,
  { title, content, heading = html`<h1>${title}</h1>`, aside = NOTHING, foot = NOTHING }: PageParts,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  const moments = [content, heading, aside, foot].some(({ text }) => HAS_TIME.test(text))
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title><style>${new Html(PAGE_STYLE)}</style></head>
<body><main><header class="top"><span class="brand">${new Html(MARK)}Collet</span>${aside}</header>
<div class="body">${heading}
${content}
</div>${foot}</main>${moments ? SCRIPT_ELEMENT : NOTHING}</body></html>
`
  return { status, headers: { ...PAGE_HEADERS, ...headers }, body: page.text }
}

const NOTHING = new Html('')

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
