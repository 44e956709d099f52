import { hash } from 'node:crypto'
import type { HttpReply } from './http-exchange.ts'

const STYLE = [
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color:#1c1c1c;background:#fff;overflow-wrap:anywhere}',
  'h1{font-size:1.4rem}h2{font-size:1.1rem}dt{font-weight:600}dd{margin:0 0 .6rem}',
  'button,textarea{font:inherit;border:1px solid #767676;border-radius:.3rem;background:#fff;color:inherit}',
  'button{padding:.5rem 1.5rem;margin:1rem 1rem 0 0;cursor:pointer}textarea{display:block;box-sizing:border-box;width:100%;padding:.5rem}',
  'label{display:block;font-weight:600}pre{background:#f3f3f3;padding:1rem;white-space:pre-wrap}',
  '@media(max-width:40rem){body{margin-top:1.5rem}}',
  '@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}a{color:#9cf}pre,button,textarea{background:#262626}}',
].join('')

/** Only the browser knows where its user is: moments are in UTC until it has written them in its own zone. */
const SCRIPT =
  "for(const t of document.querySelectorAll('time'))t.textContent=new Date(t.dateTime).toLocaleString(undefined,{year:'numeric',month:'short',day:'numeric',hour:'numeric',minute:'2-digit',timeZoneName:'short'})"

/** Nothing may load or frame; only the one style and the one script above are applied, and forms go nowhere but here, if anywhere. */
function contentSecurityPolicy(formAction: "'none'" | "'self'"): string {
  return [
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
    `script-src 'sha256-${hash('sha256', SCRIPT, 'base64')}'`,
    "base-uri 'none'",
    `form-action ${formAction}`,
    "frame-ancestors 'none'",
  ].join('; ')
}

/** Of every page and every redirect between pages: nothing is kept, framed, or sent on to the next site. */
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

/** HTML that stands in a page as it is; the tag below makes it. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** HTML with values in it: texts are escaped, HTML stays as it is, lists stand one after the other. */
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

/** Not in a tagged template: bundlers replace those that hold this end tag. */
const SCRIPT_ELEMENT = new Html(`<script>${SCRIPT}</script>`)
/** Callers' text is escaped, so this is in a page only where a moment is. */
const TIME_START = '<time '

/** A moment that a reader sees in their own time zone. */
export function timeHtml(ms: number): Html {
  const iso = new Date(ms).toISOString()
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}

/** A whole page for people. */
export function pageReply(
  status: number,
  { title, content }: { readonly title: string; readonly content: Html },
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${new Html(STYLE)}</style></head>
<body><main><h1>${title}</h1>
${content}
</main>${content.text.includes(TIME_START) ? SCRIPT_ELEMENT : ''}</body></html>
`
  return { status, headers: { ...PAGE_HEADERS, ...headers }, body: page.text }
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
