import { hash } from 'node:crypto'

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}h1{font-size:1.4rem}button{font:inherit;padding:.5rem 1.5rem;margin-right:1rem;border:1px solid #888;border-radius:.3rem;background:#fff;color:inherit;cursor:pointer}form{display:inline}pre{background:#f3f3f3;padding:1rem;overflow:auto}dt{font-weight:600}@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}pre,button{background:#262626}}'

/** Nothing may load, run or frame; only the one style above is applied, and forms go nowhere but here, if anywhere. */
function contentSecurityPolicy(formAction: "'none'" | "'self'"): string {
  return [
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
    "base-uri 'none'",
    `form-action ${formAction}`,
    "frame-ancestors 'none'",
  ].join('; ')
}

const COMMON = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'x-frame-options': 'DENY',
} as const

export const PAGE_HEADERS = {
  ...COMMON,
  'content-security-policy': contentSecurityPolicy("'none'"),
  'referrer-policy': 'no-referrer',
} as const

/** With `no-referrer` a browser would send `Origin: null` with the form, which the front door refuses. */
export const FORM_PAGE_HEADERS = {
  ...COMMON,
  'content-security-policy': contentSecurityPolicy("'self'"),
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const

export function htmlPage(title: string, content: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style></head>
<body><h1>${title}</h1>
${content}
</body></html>
`
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
}
