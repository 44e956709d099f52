import { Worker } from 'node:worker_threads'
import { fault, isToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import { yamlToJson } from './yaml-to-json.ts'

/** About 100 ms of work; longer texts are read in another thread, so that calls go on. */
const LONGEST_YAML_HERE = 50_000
const WORKER_FILE = import.meta.url.endsWith('.ts') ? './yaml-worker.ts' : './yaml-worker.js'
const WORKER_MEGABYTES = 1_024

/** JSON or YAML, told apart by how it begins: file names and media types are often wrong. */
export async function parseText(text: string, place: string, signal: AbortSignal): Promise<JsonValue> {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text
  try {
    return /^\s*[[{]/.test(body) ? await parseBraces(body, signal) : await parseYaml(body, signal)
  } catch (error) {
    if (signal.aborted || isToolError(error)) throw error
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : ''
    throw fault('upstream_failed', `${place} is neither JSON nor YAML.`, {
      developerMessage: why,
      cause: error,
    })
  }
}

/** YAML's flow style begins with a brace too. */
async function parseBraces(text: string, signal: AbortSignal): Promise<JsonValue> {
  try {
    const value: JsonValue = JSON.parse(text)
    return value
  } catch {
    return parseYaml(text, signal)
  }
}

async function parseYaml(text: string, signal: AbortSignal): Promise<JsonValue> {
  const json = text.length <= LONGEST_YAML_HERE ? yamlToJson(text) : await convertElsewhere(text, signal)
  const value: JsonValue = JSON.parse(json)
  return value
}

/** Ends with the signal, whatever the text does to the parser. */
function convertElsewhere(text: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const worker = new Worker(new URL(WORKER_FILE, import.meta.url), {
    workerData: text,
    resourceLimits: { maxOldGenerationSizeMb: WORKER_MEGABYTES },
  })
  return new Promise<string>((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    worker.once('error', reject)
    worker.once('message', resolve)
    worker.once('exit', () => reject(new Error('the parser ended without an answer')))
  }).finally(() => worker.terminate())
}
