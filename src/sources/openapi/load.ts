import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { readStart } from '#kernel/base/bytes'
import { fault, isToolError } from '#kernel/base/errors'
import { isJsonObject, JsonScan, type JsonValue, TooMuchJson } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import { addressWithoutValues } from '#sources/common/options'
import type { SourceServices } from '#sources/kit/source'
import { Documents } from './documents.ts'

/**
 * Reads and parses OpenAPI documents and the documents they refer to, from HTTP or disk. `discover.ts` reads, and
 * `reading.ts` parses. Invariant: bytes and values are bounded before they are parsed.
 */

const MAX_BYTES = 64 * 1_048_576

interface Resource {
  readonly url: string
  readonly bytes: Buffer
}

export interface ResourceReader {
  readonly services: Pick<SourceServices, 'fetch' | 'fetchDescription'>
  readonly headers: Readonly<Record<string, Secret>>
  readonly signal: AbortSignal
}

/** Reads the source's own document, from its address or, if it has none, from a file. */
export async function readRoot(
  url: string | undefined,
  file: string,
  reader: ResourceReader,
): Promise<Resource> {
  try {
    return await (url === undefined ? readLocal(file) : fetchText(url, new URL(url).origin, reader))
  } catch (error) {
    if (error instanceof Unreadable) throw fault('upstream_failed', error.message, { cause: error })
    throw error
  }
}

/** Reads a referenced document: over HTTP with the guarded fetch, from disk only below the folder of a document on disk. */
export async function readReferred(url: string, root: string, reader: ResourceReader): Promise<Resource> {
  if (!url.startsWith('file:')) return fetchText(url, URL.parse(root)?.origin ?? 'null', reader)
  if (!root.startsWith('file:')) throw new Unreadable(`${url} is a file, but the document is not.`)
  const folder = dirname(fileURLToPath(root))
  const path = await realpath(fileURLToPath(url)).catch(() => undefined)
  if (path === undefined) throw new Unreadable(`${url} does not exist.`)
  // The paths are compared after symbolic links are resolved, so that no link leads out of the folder.
  if (!path.startsWith(folder === sep ? sep : folder + sep))
    throw new Unreadable(`${url} is outside the folder of the document.`)
  return { ...(await readLocal(path)), url }
}

async function readLocal(path: string): Promise<Resource> {
  const real = await realpath(path).catch(() => undefined)
  if (real === undefined) throw new Unreadable(`There is no file ${path}.`)
  const entry = await stat(real)
  if (!entry.isFile()) throw new Unreadable(`${path} is not a file.`)
  if (entry.size > MAX_BYTES) throw new Unreadable(`${path} has more than ${MAX_BYTES} bytes.`)
  return { url: pathToFileURL(real).href, bytes: await readFile(real) }
}

async function fetchText(url: string, credentialOrigin: string, reader: ResourceReader): Promise<Resource> {
  const address = URL.parse(url)
  if (address === null || !/^https?:$/.test(address.protocol))
    throw new Unreadable(`${url} is not an http or https address.`)
  const own = address.origin === credentialOrigin ? Object.entries(reader.headers) : []
  const headers = new Headers({ accept: 'application/json, application/yaml;q=0.9, */*;q=0.5' })
  for (const [name, secret] of own) headers.set(name, secret.reveal())
  const response = await send(address, { headers, signal: reader.signal }, reader)
  if (!response.ok) {
    await response.body?.cancel()
    const problem = `${addressWithoutValues(url)} answered ${response.status}.`
    if (response.status >= 400 && response.status < 500 && ![401, 403, 408, 429].includes(response.status))
      throw new Unreadable(problem)
    throw fault('upstream_failed', problem)
  }
  const { bytes, isWhole } = await readStart(response.body, MAX_BYTES)
  if (!isWhole) throw new Unreadable(`${addressWithoutValues(url)} has more than ${MAX_BYTES} bytes.`)
  // After a redirect, relative references refer to the new address.
  return { url: response.url === '' ? address.href : response.url, bytes }
}

async function send(url: URL, init: RequestInit, { services }: ResourceReader): Promise<Response> {
  try {
    return await (services.fetchDescription ?? services.fetch)(url, init)
  } catch (error) {
    if (isToolError(error) && error.code === 'egress_denied')
      throw new Unreadable(
        `${addressWithoutValues(url.href)} is an address that this server must not reach: ${error.developerMessage ?? ''}`,
      )
    if (isToolError(error) || init.signal?.aborted === true) throw error
    throw fault('upstream_failed', `${addressWithoutValues(url.href)} cannot be reached.`, { cause: error })
  }
}

const MAX_DOCUMENTS = 200
/** Limits one YAML document, and all referenced documents together. */
const MAX_CHARACTERS = 64 * 1_048_576

/**
 * Maximum number of values in all parsed documents. A worker thread that runs out of memory inside `JSON.parse` ends the whole
 * process despite its resource limits, and a text of 64 MiB can contain 20 million objects.
 */
const MAX_VALUES = 8_000_000

interface ValueBudget {
  values: number
}

/** Matches a reference to another document, in JSON or YAML. */
const OUTSIDE_REFERENCE = /\$ref["']?\s*:\s*["']?[^#"'\s]/

export interface RootText {
  readonly url: string
  /** Returns the text, and may be called only once, so that the text's memory can be released. */
  takeText(): string
}

export interface LoadCallbacks {
  /** Reads a referenced document; throws `Unreadable` if it must not be read. */
  read(url: string): Promise<string>
  warn(text: string): void
}

/** `isSelfContained` is true if the document does not refer to other documents. */
export async function loadDocuments(root: RootText, callbacks: LoadCallbacks) {
  const budget = { values: MAX_VALUES }
  const { value, isSelfContained } = await parseRoot(root, budget)
  const values = new Map<string, JsonValue>([[root.url, value]])
  if (!isSelfContained) await readReferences(root.url, values, { ...callbacks, budget })
  return { isSelfContained, documents: new Documents(root.url, values) }
}

/** A separate function, so that the text is released when it returns. */
async function parseRoot(root: RootText, budget: ValueBudget) {
  const text = root.takeText()
  return {
    isSelfContained: !OUTSIDE_REFERENCE.test(text),
    value: await parseText(text, 'The document', budget),
  }
}

/** Adds to `values` all documents that the documents in it refer to, directly or indirectly. */
async function readReferences(
  rootUrl: string,
  values: Map<string, JsonValue>,
  callbacks: LoadCallbacks & { readonly budget: ValueBudget },
): Promise<void> {
  const started = new Set([rootUrl])
  let characters = 0
  let failure: unknown
  await follow(rootUrl)
  // If the server of one document fails, the whole reading fails, and the accepted definitions stay.
  if (failure !== undefined) {
    throw isToolError(failure)
      ? failure
      : fault('upstream_failed', 'A document that this one refers to cannot be read.', { cause: failure })
  }

  /** Never throws, so that all requests have ended before the first failure is thrown. */
  async function follow(document: string): Promise<void> {
    try {
      const unread = referencedDocuments(values.get(document), document).filter((url) => !started.has(url))
      await Promise.all(unread.map(read))
    } catch (error) {
      failure ??= error
    }
  }

  async function read(url: string): Promise<void> {
    started.add(url)
    try {
      if (started.size > MAX_DOCUMENTS) throw new Unreadable(`More than ${MAX_DOCUMENTS} documents.`)
      const text = await callbacks.read(url)
      characters += text.length
      if (characters > MAX_CHARACTERS) throw new Unreadable(`More than ${MAX_CHARACTERS} characters in all.`)
      values.set(url, await parseText(text, url, callbacks.budget))
    } catch (error) {
      if (!(error instanceof Unreadable)) failure ??= error
      else callbacks.warn(`Not read: ${error.message}`)
      return
    }
    await follow(url)
  }
}

/** The addresses of other documents that a value refers to. */
function referencedDocuments(value: JsonValue | undefined, document: string): readonly string[] {
  const found = new Set<string>()
  const unvisited = [value]
  while (unvisited.length > 0) {
    const node = unvisited.pop()
    if (typeof node !== 'object' || node === null) continue
    const reference = isJsonObject(node) ? node.$ref : undefined
    if (typeof reference === 'string' && /^[^#]/.test(reference)) {
      const url = new URL(reference, document)
      url.hash = ''
      found.add(url.href)
    }
    for (const part of Object.values(node).reverse()) unvisited.push(part)
  }
  found.delete(document)
  return [...found]
}

/** The error for a document that cannot be read permanently, for example a file outside the allowed folder, unlike a network failure. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable'
}

/** Parses JSON or YAML. The first characters decide which, because file names and media types are often wrong. */
export async function parseText(
  text: string,
  location: string,
  budget: ValueBudget = { values: MAX_VALUES },
): Promise<JsonValue> {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text
  try {
    return await (beginsAsJson(body) ? parseBraces(body, budget) : parseYaml(body, budget))
  } catch (error) {
    if (error instanceof TooMuchJson)
      throw fault('upstream_failed', `${location} is too large: with it, the document ${error.message}.`)
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : ''
    throw fault('upstream_failed', `${location} is neither JSON nor YAML.`, {
      developerMessage: why,
      cause: error,
    })
  }
}

export function beginsAsJson(text: string): boolean {
  return /^\uFEFF?\s*[[{]/.test(text)
}

/** Tries JSON and then YAML, because YAML's flow style also begins with a brace. */
function parseBraces(text: string, budget: ValueBudget): MaybePromise<JsonValue> {
  try {
    return parseCounted(text, budget)
  } catch (error) {
    if (error instanceof TooMuchJson) throw error
    return parseYaml(text, budget)
  }
}

async function parseYaml(text: string, budget: ValueBudget): Promise<JsonValue> {
  return parseCounted(await yamlToJson(text), budget)
}

function parseCounted(text: string, budget: ValueBudget): JsonValue {
  const scan = new JsonScan({ maxDepth: Number.POSITIVE_INFINITY, maxValues: budget.values })
  scan.take(Buffer.from(text))
  if (scan.problem !== undefined) throw new TooMuchJson(`contains more than ${MAX_VALUES} values`)
  budget.values -= scan.values
  return JSON.parse(text)
}

/** YAML aliases can multiply the size of a document; an OpenAPI document needs few. */
const MAX_ALIASES = 1_000

/** Converts YAML to JSON text, so that recursive aliases throw here and not in later code. */
async function yamlToJson(text: string): Promise<string> {
  // The package is loaded only when needed, because loading its seventy files blocks the thread.
  const { parse } = await import('yaml')
  const value: unknown = parse(text, { merge: true, maxAliasCount: MAX_ALIASES, logLevel: 'error' })
  refuseExpansion(value)
  return JSON.stringify(value ?? null)
}

/** Counts characters before writing, because an aliased part is one value here but is repeated in JSON. */
function refuseExpansion(value: unknown): void {
  let left = MAX_CHARACTERS
  const walk = (inner: unknown): void => {
    left -= typeof inner === 'string' ? inner.length + 2 : 2
    if (left < 0) throw new RangeError(`more than ${MAX_CHARACTERS} characters`)
    if (typeof inner !== 'object' || inner === null) return
    for (const [name, member] of Object.entries(inner)) {
      left -= name.length
      walk(member)
    }
  }
  walk(value)
}
