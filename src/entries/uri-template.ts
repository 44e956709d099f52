import type { Report } from '#kernel/base/errors'

/**
 * URI templates (RFC 6570) of resources written as code: parses a template, and finds the values of its variables in an
 * address. `resource.ts` uses it.
 * Invariant: reading an address takes time linear in its length, whatever the template. The value of a variable ends where the
 * text after the variable occurs first.
 */

/** The type of a template's variables; variables of a query are optional. */
export type ParamsOf<Template extends string> = Together<NamesIn<Template>>

type Together<T> = { [K in keyof T]: T[K] }

type NamesIn<Template extends string> = Template extends `${string}{${infer Expression}}${infer Rest}`
  ? Named<Expression> & NamesIn<Rest>
  : unknown

type Named<Expression extends string> = Expression extends `?${infer Names}`
  ? { readonly [Name in Split<Names>]?: string }
  : Expression extends `${'+' | '#' | '/' | '.'}${infer Name}`
    ? { readonly [Key in Name]: string }
    : { readonly [Key in Expression]: string }

type Split<Names extends string> = Names extends `${infer First},${infer Rest}` ? First | Split<Rest> : Names

type TemplateParams = Readonly<Record<string, string>>

export interface UriTemplate {
  readonly names: readonly string[]
  /** The values in an address; `undefined` if the address does not come from the template. */
  paramsOf(uri: string): TemplateParams | undefined
}

/** Text of the address that follows a variable; `''` before the query or the end. */
interface Variable {
  readonly name: string
  textAfter: string
  /** Whether the value may have the characters that separate parts of an address. */
  readonly isWide: boolean
}

const EXPRESSION = /\{([^{}]*)\}/
const FORM = /^([+#/.?]?)([A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*)$/
const SEPARATORS = /[/?#]/
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*:/

/** Operators whose character stands before the value in an address. */
const LEADING = new Set(['#', '/', '.'])

export function isAddress(text: unknown): text is string {
  return typeof text === 'string' && SCHEME.test(text) && !/[\s\p{Cc}]/u.test(text) && text.isWellFormed()
}

/** Parses a template. Reports unsupported ones: with lists or prefixes of values, or with variables without text between them. */
export function readTemplate(template: string, report: Report): UriTemplate | undefined {
  const pieces = template.split(EXPRESSION)
  const bad = (problem: string) =>
    report(
      'uriTemplate',
      problem,
      'Write a template like `docs://{page}`, `files:///{+path}` or `search://all{?q,limit}`.',
    )
  if (pieces.some((piece, at) => at % 2 === 0 && /[{}]/.test(piece)))
    return bad('Has a brace without its pair.')
  const start = pieces[0] ?? ''
  if (pieces.length === 1) return bad('Has no variable. For one address write `uri`.')
  const variables: Variable[] = []
  const query: string[] = []
  let text = start
  for (let at = 1; at < pieces.length; at += 2) {
    const [, operator = '', list] = FORM.exec(pieces[at] ?? '') ?? []
    const after = pieces[at + 1] ?? ''
    if (list === undefined) return bad(`Has "{${pieces[at]}}", which is not supported.`)
    const names = list.split(',')
    if (operator === '?') {
      if (after !== '' || at + 2 < pieces.length) return bad('Has something after its query.')
      query.push(...names)
      continue
    }
    const [name = '', ...others] = names
    if (others.length > 0) return bad(`Has "{${pieces[at]}}": only a query may have several variables.`)
    const last = variables.at(-1)
    const lead = LEADING.has(operator) ? operator : ''
    if (last === undefined) text += lead
    else last.textAfter += lead
    if (last !== undefined && last.textAfter === '') return bad(`Has no text before {${name}}.`)
    variables.push({ name, textAfter: after, isWide: operator === '+' || operator === '#' })
  }
  const names = [...variables.map(({ name }) => name), ...query]
  if (new Set(names).size < names.length) return bad('Has a variable twice.')
  return { names, paramsOf: (uri) => readAddress(uri, { start: text, variables, query }) }
}

interface TemplateParts {
  readonly start: string
  readonly variables: readonly Variable[]
  readonly query: readonly string[]
}

function readAddress(uri: string, { start, variables, query }: TemplateParts): TemplateParams | undefined {
  if (!uri.startsWith(start)) return undefined
  const params = new Map<string, string>()
  const mark = query.length === 0 ? -1 : uri.indexOf('?', start.length)
  const path = mark === -1 ? uri : uri.slice(0, mark)
  let at = start.length
  for (const [index, { name, textAfter, isWide }] of variables.entries()) {
    const isLast = index === variables.length - 1
    const end = isLast ? lastEnd(path, textAfter) : path.indexOf(textAfter, at)
    const value = end <= at ? undefined : decoded(path.slice(at, end))
    if (value === undefined || (!isWide && SEPARATORS.test(path.slice(at, end)))) return undefined
    params.set(name, value)
    at = end + textAfter.length
  }
  if (at !== path.length) return undefined
  return mark === -1 || addQuery(params, uri.slice(mark + 1), query) ? Object.fromEntries(params) : undefined
}

function lastEnd(path: string, text: string): number {
  return path.endsWith(text) ? path.length - text.length : -1
}

/** The pairs of a query come in any order; `false` if one has a name that the template does not have. */
function addQuery(params: Map<string, string>, text: string, names: readonly string[]): boolean {
  for (const pair of text.split('&').filter((part) => part !== '')) {
    const [name = '', ...rest] = pair.split('=')
    const value = decoded(rest.join('='))
    if (!names.includes(name) || value === undefined) return false
    params.set(name, value)
  }
  return true
}

/** `undefined` for invalid percent-encoding. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
