import { isJsonObject } from '#core/json'
import type { Documents } from './documents.ts'
import { entriesOf, type Located, memberOf } from './located.ts'
import type { OpenapiOptions } from './options.ts'

export type ServerChoice =
  | { readonly ok: true; readonly baseUrl: string }
  | { readonly ok: false; readonly problem: string }

/** Where an operation's requests go: what the operator says, else the first server that the document names. */
export function chooseServer(
  servers: readonly Located[],
  documents: Documents,
  { baseUrl, variables }: Pick<OpenapiOptions, 'baseUrl' | 'variables'>,
): ServerChoice {
  if (baseUrl !== undefined) return { ok: true, baseUrl: withoutSlash(baseUrl) }
  const server = servers[0] ?? { value: { url: '/' }, document: documents.root.document }
  const template = isJsonObject(server.value) ? server.value.url : undefined
  if (typeof template !== 'string') return { ok: false, problem: 'its server has no url' }
  const filled = fill(template, server, variables)
  if (!filled.ok) return filled
  // Relative addresses start at the document, which on disk has none.
  const url = URL.parse(filled.baseUrl, server.document)
  if (url === null || url.protocol === 'file:') {
    return { ok: false, problem: `the server "${template}" is no full address: write \`baseUrl\`` }
  }
  if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    return {
      ok: false,
      problem: `the server "${template}" is no plain http or https address: write \`baseUrl\``,
    }
  }
  if (url.search !== '' || url.hash !== '') {
    return { ok: false, problem: `the server "${template}" has a query or a fragment: write \`baseUrl\`` }
  }
  return { ok: true, baseUrl: withoutSlash(url.href) }
}

function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url
}

function fill(template: string, server: Located, chosen: Readonly<Record<string, string>>): ServerChoice {
  const declared = new Map(entriesOf(memberOf(server, 'variables')?.value))
  let problem: string | undefined
  const baseUrl = template.replaceAll(/\{([^{}]+)\}/g, (_whole, name: string) => {
    const variable = declared.get(name)
    const { default: usual, enum: choices } = isJsonObject(variable) ? variable : {}
    const value = Object.hasOwn(chosen, name) ? chosen[name] : usual
    if (typeof value !== 'string' && typeof value !== 'number') {
      problem ??= `the server variable "${name}" has no value: write \`variables: { ${name}: … }\``
      return ''
    }
    if (Array.isArray(choices) && choices.length > 0 && !choices.map(String).includes(String(value))) {
      problem ??= `the server variable "${name}" is one of: ${choices.map(String).join(', ')}`
    }
    return String(value)
  })
  return problem === undefined ? { ok: true, baseUrl } : { ok: false, problem }
}
