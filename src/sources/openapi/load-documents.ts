import { resolve } from 'node:path'
import { $RefParser } from '@apidevtools/json-schema-ref-parser'
import { fault, isToolError } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { SourceServices } from '#core/ports/source-services'
import { Documents } from './documents.ts'
import type { OpenapiOptions } from './options.ts'
import { parseText } from './parse-text.ts'
import { type ResourceReader, readReferred, readRoot, Unreadable } from './read-resource.ts'

const MOST_DOCUMENTS = 200
/** Of all that a document refers to. */
const MOST_CHARACTERS = 64 * 1_048_576

/** A reference that leaves its document, in JSON or YAML; without one there is nothing more to read. */
const LEAVES = /\$ref["']?\s*:\s*["']?[^#"'\s]/

export interface LoadRequest {
  readonly options: OpenapiOptions
  readonly services: SourceServices
  readonly signal: AbortSignal
}

export interface Loaded {
  /** Tells whether the text is still the same; `undefined` where other documents belong to it. */
  readonly digest: string | undefined
  readonly documents: Documents
}

/** Reads the document and, with the parser's help, all it refers to; gives `known` when it is still that text. */
export async function loadDocuments<Known extends Pick<Loaded, 'digest'>>(
  request: LoadRequest,
  known: Known | undefined,
  warn: (text: string) => void,
): Promise<Loaded | Known> {
  const { url, file = '' } = request.options
  const place = url === undefined ? { file: resolve(request.services.folder, file) } : { url }
  const root = await readRoot(place, readerOf(request))
  const isAlone = !LEAVES.test(root.text)
  const digest = isAlone ? `${root.url} ${root.digest}` : undefined
  if (digest !== undefined && digest === known?.digest) return known
  const value = await parseText(root.text, 'The document', request.signal)
  const values = new Map<string, JsonValue>([[root.url, value]])
  if (!isAlone && isJsonObject(value)) {
    await readAll(root.url, value, { values, reader: readerOf(request), warn })
  }
  return { digest, documents: new Documents(root.url, values) }
}

function readerOf({ services, options, signal }: LoadRequest): ResourceReader {
  return { services, headers: options.headers, signal }
}

interface Reading {
  readonly values: Map<string, JsonValue>
  readonly reader: ResourceReader
  readonly warn: (text: string) => void
}

/** The parser finds references; reading is ours alone, so that none reaches what a call could not reach (rule 33). */
async function readAll(rootUrl: string, root: JsonObject, { values, reader, warn }: Reading): Promise<void> {
  let failure: unknown
  let started = values.size
  let characters = 0
  const read = async ({ url }: { readonly url: string }): Promise<string> => {
    try {
      started += 1
      if (started > MOST_DOCUMENTS) throw new Unreadable(`More than ${MOST_DOCUMENTS} documents.`)
      const { text } = await readReferred(url, rootUrl, reader)
      characters += text.length
      if (characters > MOST_CHARACTERS)
        throw new Unreadable(`More than ${MOST_CHARACTERS} characters in all.`)
      values.set(url, await parseText(text, url, reader.signal))
      return text
    } catch (error) {
      if (!(error instanceof Unreadable)) failure ??= error
      else warn(`Not read: ${error.message}`)
      return 'null'
    }
  }
  const parser = new $RefParser()
  try {
    await parser.resolve(
      rootUrl,
      { ...root },
      {
        continueOnError: true,
        parse: {
          json: false,
          yaml: false,
          text: false,
          binary: false,
          own: {
            order: 1,
            canParse: true,
            allowEmpty: true,
            parse: ({ url }) => values.get(withoutHash(url)) ?? {},
          },
        },
        resolve: { file: false, http: false, own: { order: 1, canRead: true, read } },
      },
    )
  } catch (error) {
    failure ??= error
  }
  // Half a document is none: the last good definitions stay.
  if (failure !== undefined) {
    throw isToolError(failure)
      ? failure
      : fault('upstream_failed', 'What the document refers to cannot be read.', { cause: failure })
  }
}

function withoutHash(url: string): string {
  return url.split('#')[0] ?? url
}
