import { fault, isToolError } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { Documents } from './documents.ts'
import { parseText } from './parse-text.ts'
import { Unreadable } from './unreadable.ts'

const MOST_DOCUMENTS = 200
/** Of all that a document refers to. */
const MOST_CHARACTERS = 64 * 1_048_576

/** A reference that leaves its document, in JSON or YAML; without one there is nothing more to read. */
const LEAVES = /\$ref["']?\s*:\s*["']?[^#"'\s]/

/** A document as it came. */
export interface RootText {
  readonly url: string
  readonly text: string
}

export interface LoadWays {
  /** Reads what the document refers to; throws `Unreadable` for what no policy lets us read. */
  read(url: string): Promise<string>
  warn(text: string): void
}

export interface Loaded {
  readonly documents: Documents
  /** Whether all of it stands in one text. */
  readonly isAlone: boolean
}

/** Parses the document and, with the parser's help, all it refers to. */
export async function loadDocuments(root: RootText, ways: LoadWays): Promise<Loaded> {
  const isAlone = !LEAVES.test(root.text)
  const value = parseText(root.text, 'The document')
  const values = new Map<string, JsonValue>([[root.url, value]])
  if (!isAlone && isJsonObject(value)) await readAll(root.url, value, { values, ways })
  return { isAlone, documents: new Documents(root.url, values) }
}

interface Reading {
  readonly values: Map<string, JsonValue>
  readonly ways: LoadWays
}

/** The parser finds references; reading is ours alone, so that none reaches what a call could not reach (rule 33). */
async function readAll(rootUrl: string, root: JsonObject, { values, ways }: Reading): Promise<void> {
  let failure: unknown
  let started = values.size
  let characters = 0
  const read = async ({ url }: { readonly url: string }): Promise<string> => {
    try {
      started += 1
      if (started > MOST_DOCUMENTS) throw new Unreadable(`More than ${MOST_DOCUMENTS} documents.`)
      const text = await ways.read(url)
      characters += text.length
      if (characters > MOST_CHARACTERS)
        throw new Unreadable(`More than ${MOST_CHARACTERS} characters in all.`)
      values.set(url, parseText(text, url))
      return text
    } catch (error) {
      if (!(error instanceof Unreadable)) failure ??= error
      else ways.warn(`Not read: ${error.message}`)
      return 'null'
    }
  }
  // Loaded for the few documents that need it.
  const { $RefParser } = await import('@apidevtools/json-schema-ref-parser')
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
