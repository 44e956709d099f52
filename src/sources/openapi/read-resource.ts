import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { fault, isToolError } from '#core/errors'
import type { SourceServices } from '#core/ports/source'
import type { Secret } from '#core/secret'
import { shownAddress } from '#sources/common/shown-address'
import { readBounded } from './read-bounded.ts'
import { Unreadable } from './unreadable.ts'

const MOST_BYTES = 64 * 1_048_576

export interface Resource {
  readonly url: string
  readonly bytes: Buffer
}

export interface ResourceReader {
  readonly services: Pick<SourceServices, 'fetch' | 'fetchDescription'>
  readonly headers: Readonly<Record<string, Secret>>
  readonly signal: AbortSignal
}

/** Reads the document itself. */
export async function readRoot(
  place: { readonly url?: string; readonly file?: string },
  reader: ResourceReader,
): Promise<Resource> {
  try {
    return place.url === undefined
      ? await readLocal(place.file ?? '')
      : await fetchText(place.url, new URL(place.url).origin, reader)
  } catch (error) {
    if (error instanceof Unreadable) throw fault('upstream_failed', error.message, { cause: error })
    throw error
  }
}

/** Reads what a document refers to: over HTTP by the guarded fetch alone, from disk only beside a document on disk. */
export async function readReferred(url: string, root: string, reader: ResourceReader): Promise<Resource> {
  if (!url.startsWith('file:')) return fetchText(url, URL.parse(root)?.origin ?? 'null', reader)
  if (!root.startsWith('file:')) throw new Unreadable(`${url} is a file, and the document is not.`)
  const folder = dirname(fileURLToPath(root))
  const path = await realpath(fileURLToPath(url)).catch(() => undefined)
  if (path === undefined) throw new Unreadable(`${url} does not exist.`)
  // Compared after links are followed, so that none leads out.
  if (!path.startsWith(folder === sep ? sep : folder + sep))
    throw new Unreadable(`${url} is outside the folder of the document.`)
  return { ...(await readLocal(path)), url }
}

async function readLocal(path: string): Promise<Resource> {
  const real = await realpath(path).catch(() => undefined)
  const entry = real === undefined ? undefined : await stat(real)
  if (real === undefined || entry === undefined) throw new Unreadable(`There is no file ${path}.`)
  if (!entry.isFile()) throw new Unreadable(`${path} is not a file.`)
  if (entry.size > MOST_BYTES) throw new Unreadable(`${path} has more than ${MOST_BYTES} bytes.`)
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
    const problem = `${shownAddress(url)} answered ${response.status}.`
    if (response.status >= 400 && response.status < 500 && ![401, 403, 408, 429].includes(response.status))
      throw new Unreadable(problem)
    throw fault('upstream_failed', problem)
  }
  const bytes = await readBounded(response, MOST_BYTES)
  if (bytes === undefined) throw new Unreadable(`${shownAddress(url)} has more than ${MOST_BYTES} bytes.`)
  // After a redirect, relative references start where the document really is.
  return { url: response.url === '' ? address.href : response.url, bytes }
}

async function send(url: URL, init: RequestInit, { services }: ResourceReader): Promise<Response> {
  try {
    return await (services.fetchDescription ?? services.fetch)(url, init)
  } catch (error) {
    if (isToolError(error) && error.code === 'egress_denied')
      throw new Unreadable(
        `${shownAddress(url.href)} is an address this server does not reach: ${error.developerMessage ?? ''}`,
      )
    if (isToolError(error) || init.signal?.aborted === true) throw error
    throw fault('upstream_failed', `${shownAddress(url.href)} cannot be reached.`, { cause: error })
  }
}
