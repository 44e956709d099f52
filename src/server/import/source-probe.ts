import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BodyOf } from '#admin-api/operation'
import type { PROBE_SOURCE, ProbedSource } from '#admin-api/sources'
import type { Clock } from '#kernel/base/clock'
import { cleanText } from '#kernel/base/json'
import { FrameQueue } from '#protocols/frame-queue'
import type { HttpReply } from '#protocols/http-exchange'
import { badRequest } from '#server/admin/admin-route'
import { wordsOf } from '#sources/kit/command-words'
import { countOffered } from '#sources/kit/offer-counts'
import type { Discovery } from '#sources/kit/source'
import { hostOf, shownAddress, shownCommand, shownProgram } from '#sources/kit/source-facts'
import { detectSource, type ImportTarget, suggestKey } from './detect.ts'
import { asSentence, createImportFetch, type Preview, previewSource, suspicionTexts } from './preview.ts'
import type { FoundSource } from './probe.ts'

/**
 * `POST /admin/sources/probe` `{ target, api_key? }`: detects what a URL, a file or a command is, and which tools it
 * has, before it is added. The console shows the answer, a stream of events: `step` and `line` (of the program's
 * stderr) as they happen, then `found` or `failed`. Invariant: a probe of a command runs it, so the journal records
 * each probe before it sends a request or starts a program. A reader that disconnects stops the probe.
 */

interface ProbeOptions {
  readonly clock: Clock
  /** Journals the probe before it sends a request or starts a program. */
  recordProbe(target: string): unknown
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const MAX_NOTE_LENGTH = 500
const MAX_MS = 120_000
const MAX_LINES = 500
const MAX_SHOWN = 500

export async function probeReply(
  body: BodyOf<typeof PROBE_SOURCE>,
  options: ProbeOptions,
): Promise<HttpReply> {
  const request = readRequest(body)
  await options.recordProbe(shownTarget(request.target))
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream' },
    body: (ended) => frames(request, options, ended),
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

type ProbeRequest = ReturnType<typeof readRequest>

function readRequest({ target, api_key: apiKey }: BodyOf<typeof PROBE_SOURCE>) {
  const { username, password } = (isAddress(target) ? URL.parse(target) : null) ?? {}
  if (username || password)
    throw badRequest('Leave user and password out of the address. Send a key in its own field (`api_key`).')
  return { target, apiKey: apiKey === '' ? undefined : apiKey }
}

type ProbeEvent = readonly [event: 'step' | 'line' | 'found' | 'failed', data: object]

async function* frames(
  request: ProbeRequest,
  options: ProbeOptions,
  ended: AbortSignal,
): AsyncGenerator<string> {
  const queue = new FrameQueue(0)
  const emit = (...[event, data]: ProbeEvent) =>
    queue.add(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`, false)
  const signal = AbortSignal.any([ended, AbortSignal.timeout(MAX_MS)])
  const probing = probe(request, options, { signal, emit })
    .catch((error: unknown) => {
      const late = signal.aborted ? `No answer in ${MAX_MS / 1_000} s.` : undefined
      return failed(late ?? (error instanceof Error ? error.message : String(error)))
    })
    .then((last) => emit(...last))
    .finally(() => queue.end())
  for (let frame = await queue.next(); frame !== undefined; frame = await queue.next()) yield frame
  await probing
}

function failed(message: string, seen: readonly string[] = []): ProbeEvent {
  return ['failed', { message, seen }]
}

/** Probes the target and returns the last event. */
async function probe(
  { target: text, apiKey }: ProbeRequest,
  { clock, folder, environment }: ProbeOptions,
  { signal, emit }: { readonly signal: AbortSignal; emit(...event: ProbeEvent): void },
): Promise<ProbeEvent> {
  const target = readTarget(text, folder)
  const send = createImportFetch(target.kind === 'url' ? target.url : undefined)
  const onStep = (step: string) => emit('step', { text: cleanText(step) })
  try {
    if (target.kind === 'command') onStep(`Starting ${target.words.join(' ')}, and asking for its tools`)
    const { found, seen, isUnreachable } = await detectSource(target, { send, signal, apiKey, onStep })
    if (isUnreachable === true)
      return failed(
        `${seen.map(cleanText).join(' ')} Check that it runs, and that the address and the port are right.`,
      )
    if (found === undefined) {
      const shown = cleanText(target.kind === 'url' ? shownAddress(text) : text)
      return failed(`${shown} is not MCP, OpenAPI, OTC or OpenTool.`, seen.map(cleanText))
    }
    // The kind of a program is known only when it answers.
    if (target.kind !== 'command') onStep(`It is ${found.what}. Reading its tools`)
    let lines = 0
    const onLine = (line: string) => {
      lines += 1
      if (lines <= MAX_LINES) emit('line', { text: line })
    }
    const services = { fetch: send, clock, folder, environment }
    const preview = await previewSource(suggestKey(found), found.options, { services, signal, onLine })
    return preview.kind === 'seen'
      ? ['found', renderFound(found, preview.discovery)]
      : failed(asSentence(failureText(found, preview)))
  } finally {
    await send.close()
  }
}

function failureText(
  { what, options: { command } }: FoundSource,
  { why, lacks, isUsageError }: Exclude<Preview, { kind: 'seen' }>,
): string {
  if (typeof command !== 'string') return `It is ${what}, but its tools cannot be read: ${why}`
  if (isUsageError) return why
  const program = cleanText(shownProgram(command))
  return lacks === 'program'
    ? `There is no program ${program} on the server's machine. Install it there, or write its full path.`
    : `${program} was started. ${why}`
}

function readTarget(text: string, folder: string): ImportTarget {
  if (isAddress(text)) return { kind: 'url', url: text }
  const isFileUrl = /^file:\/\//i.test(text)
  const file = isFileUrl ? fileURLToPath(text) : resolve(folder, text)
  if (isFileUrl && !existsSync(file))
    throw new Error(`There is no file ${cleanText(file)} on the server's machine.`)
  return isFileUrl || (/\.(?:json|ya?ml)$/i.test(text) && existsSync(file))
    ? { kind: 'file', file }
    : { kind: 'command', words: wordsOf(text), folder }
}

function renderFound(found: FoundSource, { tools: offered, warnings, name }: Discovery): ProbedSource {
  const tools = offered.filter(({ entry }) => entry === undefined)
  const { prompts, templates, skills } = countOffered(offered)
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
    prompt_count: prompts,
    template_count: templates,
    skill_count: skills,
    warnings: [...(found.notes ?? []), ...warnings, ...suspicionTexts(offered)],
  }
}
