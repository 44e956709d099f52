import { parse } from 'yaml'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { serverBaseUrl } from '#protocols/opentool/codec-document'
import { type Look, OTHER } from './found-source.ts'

/** YAML can name a part many times over; a description needs few such names. */
const MOST_ALIASES = 1_000

/** A document of JSON or YAML; `undefined` for any other text. */
export function parseDescription(text: string): JsonObject | undefined {
  const value = parseJson(text) ?? parseYaml(text)
  return isJsonObject(value) ? value : undefined
}

/** An OpenAPI or OpenTool document, by what it says of itself. */
export function lookAtDocument(
  document: JsonObject,
  place: { readonly url: string } | { readonly file: string },
  headers: JsonObject = {},
): Look {
  const { openapi, swagger, opentool, info } = document
  const title = isJsonObject(info) && typeof info.title === 'string' ? { name: info.title } : {}
  const version = openapi ?? swagger
  if (version !== undefined) {
    const options = { type: 'openapi', ...place, ...(Object.keys(headers).length === 0 ? {} : { headers }) }
    const kind = openapi === undefined ? 'a Swagger' : 'an OpenAPI'
    return {
      kind: 'found',
      source: { type: 'openapi', options, what: `${kind} ${String(version)} document`, ...title, notes: [] },
    }
  }
  return opentool === undefined ? OTHER : lookAtOpenTool(document, place, title)
}

/**
 * A document describes its server's functions, whether or not the server does. The operator has the file, or typed the
 * server's own host: what is elsewhere stays behind the guard of the way out (rule 33).
 */
function lookAtOpenTool(
  { opentool, server }: JsonObject,
  place: { readonly url: string } | { readonly file: string },
  title: { readonly name?: string },
): Look {
  const written = isJsonObject(server) && typeof server.url === 'string' ? server.url : undefined
  const url = written === undefined ? undefined : serverBaseUrl({ url: written })
  if (url === undefined) {
    return {
      kind: 'unusable',
      why: 'It is an OpenTool document that does not say where its server is (server.url). Import the address of the server; if that does not describe itself, write both into the config: { "type": "opentool", "url": …, "document": … }.',
    }
  }
  const document = 'file' in place ? place.file : place.url
  const isNamed = 'file' in place || new URL(place.url).host === new URL(url).host
  return {
    kind: 'found',
    source: {
      type: 'opentool',
      options: { type: 'opentool', ...(isNamed ? { url } : {}), document },
      what: `an OpenTool ${String(opentool)} document of the server ${url}`,
      ...title,
      notes: [],
    },
  }
}

function parseJson(text: string): JsonValue | undefined {
  try {
    const value: JsonValue = JSON.parse(text.startsWith('\uFEFF') ? text.slice(1) : text)
    return value
  } catch {
    return undefined
  }
}

function parseYaml(text: string): JsonValue | undefined {
  // A page of HTML is YAML too, as one long text.
  if (/^\s*</.test(text)) return undefined
  try {
    const value: JsonValue = parse(text, { merge: true, maxAliasCount: MOST_ALIASES, logLevel: 'error' })
    return value
  } catch {
    return undefined
  }
}
