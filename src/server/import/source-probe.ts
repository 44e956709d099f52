import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Clock } from '#kernel/base/clock'
import { cleanText, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { badRequest } from '#server/admin/access'
import { wordsOf } from '#sources/kit/command-words'
import type { Discovery } from '#sources/kit/source'
import { hostOf, shownAddress, shownCommand, shownProgram } from '#sources/kit/source-facts'
import { suspicionsOf } from '#sources/kit/suspicions'
import { type Detection, detectFile, detectUrl, foundCommand, suggestKey } from './detect.ts'
import { createImportFetch, type FoundSource, type Preview, previewSource, stderrLogger } from './probe.ts'

interface ProbeOptions {
  readonly clock: Clock
  /** Writes down that somebody looks at this, before anything is asked or started. */
  noteLook(target: string): unknown
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const MAX_TARGET_LENGTH = 8_192
/** Of a target, in the journal. */
const MAX_NOTE_LENGTH = 500
const MAX_MS = 120_000
/** At the first start a launcher may have to download the program. */
const FIRST_START = { connectTimeoutMs: 60_000, discoverTimeoutMs: 60_000 }
const MAX_LINES = 500
const MAX_SHOWN = 500

/**
 * `POST /admin/sources/probe` `{ target, api_key? }`: what a URL, a file or a command is, and which tools it has, before it is added.
 * The answer is a stream of events: `step` and `line` (of the program's stderr) as they come, then `found` or `failed`. A reader
 * who leaves stops it. A look at a command runs it, so each leaves its trace in the journal first.
 */
export async function probeReply({ body }: HttpRequest, options: ProbeOptions): Promise<HttpReply> {
  const asked = readAsked(body)
  await options.noteLook(shownTarget(asked.target))
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    body: (ended) => frames(asked, options, ended),
  }
}

function shownTarget(target: string): string {
  const [command = '', ...args] = wordsOf(target)
  if (isAddress(target) || (command.includes('://') && URL.canParse(command))) return hostOf(command)
  return cleanText(shownCommand(command, args)).slice(0, MAX_NOTE_LENGTH).toWellFormed()
}

function isAddress(target: string): boolean {
  return /^https?:$/.test(URL.parse(target)?.protocol ?? '')
}

interface Asked {
  readonly target: string
  readonly apiKey: string | undefined
}

function readAsked(body: JsonValue | undefined): Asked {
  const { target, api_key: apiKey } = isJsonObject(body) ? body : {}
  if (typeof target !== 'string' || target.trim() === '' || target.length > MAX_TARGET_LENGTH)
    throw badRequest('Send { "target": "https://… or a file or a command" }.')
  const { username, password } = (isAddress(target) ? URL.parse(target.trim()) : null) ?? {}
  if (username || password)
    throw badRequest('Leave user and password out of the address. A key has a field of its own (`api_key`).')
  if (apiKey !== undefined && typeof apiKey !== 'string') throw badRequest('`api_key` is a text.')
  return { target: target.trim(), apiKey: apiKey === '' ? undefined : apiKey }
}

type Told = readonly [event: 'step' | 'line' | 'found' | 'failed', data: object]

async function* frames(asked: Asked, options: ProbeOptions, ended: AbortSignal): AsyncGenerator<string> {
  const told = new Queue<Told>()
  const signal = AbortSignal.any([ended, AbortSignal.timeout(MAX_MS)])
  const looking = look(asked, options, { signal, tell: (...each) => told.push(each) })
    .catch((error: unknown) => {
      const late = signal.aborted ? `No answer in ${MAX_MS / 1_000} s.` : undefined
      const message = late ?? (error instanceof Error ? error.message : String(error))
      told.push(['failed', { message, seen: [] }])
    })
    .finally(() => told.end())
  for await (const [event, data] of told) yield `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
  await looking
}

interface Looking {
  readonly signal: AbortSignal
  tell(...told: Told): void
}

async function look(
  { target, apiKey }: Asked,
  { clock, folder, environment }: ProbeOptions,
  { signal, tell }: Looking,
): Promise<void> {
  const isUrl = isAddress(target)
  const send = createImportFetch(isUrl ? target : undefined)
  try {
    const { found, seen, isAway } = isUrl
      ? await detectUrl(target, { send, signal, apiKey, onStep: (text) => tell('step', { text }) })
      : await detectHere(target, folder, tell)
    if (isAway === true) {
      const advice = 'Look whether it runs, and whether the address and the port are right.'
      return tell('failed', { message: `${seen.map(cleanText).join(' ')} ${advice}`, seen: [] })
    }
    if (found === undefined) {
      const message = `${cleanText(isUrl ? shownAddress(target) : target)} is not MCP, OpenAPI, OTC or OpenTool.`
      return tell('failed', { message, seen: seen.map(cleanText) })
    }
    const { command } = found.options
    const isProgram = typeof command === 'string'
    // What a program is shows only when it answers.
    if (!isProgram) tell('step', { text: `It is ${found.what}. Reading its tools` })
    let lines = 0
    const log = stderrLogger((text) => {
      lines += 1
      if (lines <= MAX_LINES) tell('line', { text })
    })
    const preview = await previewSource(suggestKey(found), firstLook(found.options), {
      services: { fetch: send, clock, log, folder, environment },
      signal,
    })
    if (preview.kind !== 'seen') {
      const message = isProgram
        ? programFailure(cleanText(shownProgram(command)), preview)
        : `It is ${found.what}, but its tools cannot be read: ${whyOf(preview)}`
      return tell('failed', { message: sentence(message), seen: [] })
    }
    tell('found', renderFound(found, preview.discovery))
  } finally {
    await send.close()
  }
}

type Failed = Exclude<Preview, { kind: 'seen' }>

function programFailure(program: string, preview: Failed): string {
  if (preview.kind === 'failed' && preview.lacks === 'program')
    return `There is no program ${program} on the machine of the server. Install it there, or write its whole path.`
  return preview.kind === 'failed' ? `${program} was started. ${preview.why}` : whyOf(preview)
}

function whyOf(preview: Failed): string {
  return preview.kind === 'refused' ? preview.problems.join('; ') : preview.why
}

/** What a program or a server wrote may end in anything. */
function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

async function detectHere(target: string, folder: string, tell: Looking['tell']): Promise<Detection> {
  const isNamed = /^file:\/\//i.test(target)
  const file = isNamed ? fileURLToPath(target) : resolve(folder, target)
  if (isNamed && !existsSync(file))
    throw new Error(`There is no file ${cleanText(file)} on the machine of the server.`)
  if (isNamed || (/\.(?:json|ya?ml)$/i.test(target) && existsSync(file))) {
    tell('step', { text: `Reading ${cleanText(file)}` })
    return await detectFile(file)
  }
  const words = wordsOf(target)
  tell('step', { text: `Starting ${cleanText(words.join(' '))}, and asking for its tools` })
  return { found: foundCommand(words, folder), seen: [] }
}

/** With what an MCP server says of its tools, so that its reader can choose to believe it. */
function firstLook(options: JsonObject): JsonObject {
  return options.type === 'mcp' ? { ...FIRST_START, ...options, trust: 'annotations' } : options
}

/** What was found, as the one who asked sees it. */
function renderFound(found: FoundSource, { tools, warnings, name }: Discovery) {
  const suspicious = tools.flatMap((tool) =>
    suspicionsOf(tool).map(({ where, says }) => `Suspicious: ${tool.nativeName}, ${where}: ${says}`),
  )
  return {
    key: suggestKey(name === undefined ? found : { ...found, name }),
    type: found.type,
    what: found.what,
    options: found.options,
    tools: tools.slice(0, MAX_SHOWN).map(({ nativeName, description, hints }) => ({
      name: nativeName,
      description,
      read_only: hints?.readOnly === true,
      idempotent: hints?.idempotent === true,
    })),
    tool_count: tools.length,
    warnings: [...found.notes, ...warnings, ...suspicious],
  }
}

/** Hands on what one part tells to another that takes it one by one. */
class Queue<Item> implements AsyncIterable<Item> {
  readonly #items: Item[] = []
  #isEnded = false
  #wake: (() => void) | undefined

  push(item: Item): void {
    this.#items.push(item)
    this.#wake?.()
  }

  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
    for (;;) {
      const item = this.#items.shift()
      if (item !== undefined) yield item
      else if (this.#isEnded) return
      else {
        const { promise, resolve: wake } = Promise.withResolvers<void>()
        this.#wake = wake
        await promise
      }
    }
  }
}
