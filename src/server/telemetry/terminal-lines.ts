import { styleText } from 'node:util'
import { cleanText } from '#kernel/base/json'
import { isForeignFrame, textOfThrown } from '#kernel/base/thrown'

/** A call as a person at a terminal wants to see it. */
export interface ToldCall {
  readonly tool: string
  /** Who called. */
  readonly principal: string
  /** What it was asked over; absent = from code. */
  readonly protocol: string | undefined
  readonly durationMs: number
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  /** Where somebody has to go first; or what the caller was told, where the author of the tools is the one who watches. */
  readonly message?: string | undefined
}

/** Lines of the log for a person: colours where the terminal takes them. */
export interface TerminalLines {
  line(level: string, fields: Readonly<Record<string, unknown>>, message: string | undefined): string
  call(told: ToldCall): string
}

type Style = 'dim' | 'bold' | 'red' | 'green' | 'yellow' | 'cyan'

const LEVEL_STYLES: Readonly<Record<string, Style>> = {
  debug: 'dim',
  info: 'cyan',
  warn: 'yellow',
  error: 'red',
}
/** Nothing failed: somebody has to do something first. */
const WAITING: ReadonlySet<string> = new Set(['approval_required', 'requirement_missing'])
const MAX_LEVEL = 5
/** Of a stack: where it happened and how one came there, without all of the machinery. */
const MAX_FRAMES = 6
const MS_PER_SECOND = 1_000

export function terminalLines(options: { readonly isColored: boolean; now(): Date }): TerminalLines {
  const paint = (style: Style, text: string): string =>
    options.isColored ? styleText(style, text, { validateStream: false }) : text
  /** What a tool threw is written with its place, and then not once more with the call that failed of it. */
  let thrown = ''
  const time = (): string => paint('dim', options.now().toTimeString().slice(0, 8))
  return {
    line(level, fields, message) {
      const { err, ...rest } = fields
      const name = paint(LEVEL_STYLES[level] ?? 'dim', level.padEnd(MAX_LEVEL))
      const facts = Object.entries(rest).map(([key, value]) => paint('dim', ` ${key}=${shown(value)}`))
      thrown = err === undefined ? '' : textOfThrown(err)
      const said = message ?? (err === undefined ? '' : textOfThrown(err))
      return `${time()} ${name} ${cleanText(said)}${facts.join('')}\n${errorLines(err, message)}`
    },
    call({ tool, principal, protocol, durationMs, outcome, isReplay, message }) {
      const mark = markOf(outcome)
      const who = cleanText(principal)
      const parts = [
        paint('bold', cleanText(tool)),
        paint('dim', durationText(durationMs)),
        ...(outcome === 'ok' ? [] : [paint(mark.style, outcome)]),
        paint('dim', protocol === undefined ? who : `${who} over ${protocol}`),
        ...(isReplay ? [paint('dim', '(stored result)')] : []),
      ]
      const isSaid = message === undefined || (thrown !== '' && message.includes(thrown))
      const why = isSaid ? '' : `           ${cleanText(message)}\n`
      thrown = ''
      return `${time()} ${paint(mark.style, mark.sign)} ${parts.join('  ')}\n${why}`
    },
  }
}

function markOf(outcome: string): { readonly sign: string; readonly style: Style } {
  if (outcome === 'ok') return { sign: '✓', style: 'green' }
  return WAITING.has(outcome) ? { sign: '…', style: 'yellow' } : { sign: '✗', style: 'red' }
}

function durationText(durationMs: number): string {
  if (durationMs >= MS_PER_SECOND) return `${(durationMs / MS_PER_SECOND).toFixed(1)} s`
  return `${durationMs < 10 ? durationMs.toFixed(1) : Math.round(durationMs)} ms`
}

function shown(value: unknown): string {
  if (typeof value === 'string') return cleanText(value)
  try {
    return cleanText(JSON.stringify(value) ?? String(value))
  } catch {
    return '[object]'
  }
}

/** The error itself below the line that says what it did to us. */
function errorLines(err: unknown, message: string | undefined): string {
  if (err === undefined) return ''
  const said = message === undefined ? [] : [textOfThrown(err)]
  const stack = err instanceof Error ? (err.stack ?? '').split('\n') : []
  const all = stack.filter((line) => /^\s+at /.test(line))
  const own = all.filter((line) => !isForeignFrame(line))
  const frames = own.length > 0 ? own : all
  const cause = err instanceof Error && err.cause !== undefined ? [`cause: ${textOfThrown(err.cause)}`] : []
  return [...said, ...frames.slice(0, MAX_FRAMES).map((line) => `  ${line.trim()}`), ...cause]
    .map((line) => `         ${cleanText(line)}\n`)
    .join('')
}
