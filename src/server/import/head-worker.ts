import { parentPort, workerData } from 'node:worker_threads'
import { parse } from 'yaml'
import {
  defined,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJson,
  tooMuchJson,
} from '#kernel/base/json'

/**
 * The worker thread in which `readHead` of probe.ts parses a document. Invariant: it returns only the few members by
 * which a document is recognised, because the whole document would be copied on the serving thread.
 */
const MAX_ALIASES = 1_000
const MAX_TEXT = 1_000

/** Values are counted before they are built: running out of memory in `JSON.parse` would end the whole process. */
const BOUNDS = { maxDepth: Number.POSITIVE_INFINITY, maxValues: 4_000_000 }

function parseText(text: string): JsonValue | undefined {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text
  if (/^\s*[[{]/.test(body)) {
    if (tooMuchJson(Buffer.from(body), BOUNDS) !== undefined) return undefined
    const json = parseJson(body)
    if (json !== undefined) return json
  }
  try {
    const value: JsonValue = parse(text, { merge: true, maxAliasCount: MAX_ALIASES, logLevel: 'error' })
    return value
  } catch {
    return undefined
  }
}

function headOf(document: JsonObject): JsonObject {
  const { openapi, swagger, opentool, info, server } = document
  return defined({
    openapi: plain(openapi),
    swagger: plain(swagger),
    opentool: plain(opentool),
    info: isJsonObject(info) ? { title: plain(info.title) ?? null } : undefined,
    server: isJsonObject(server) ? { url: plain(server.url) ?? null } : undefined,
  })
}

function plain(value: JsonValue | undefined): JsonValue | undefined {
  if (typeof value === 'string') return value.slice(0, MAX_TEXT)
  return typeof value === 'number' || value === undefined ? value : 'unknown'
}

const document = typeof workerData === 'string' ? parseText(workerData) : undefined
parentPort?.postMessage(isJsonObject(document) ? headOf(document) : null)
