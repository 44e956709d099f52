/**
 * Log lines for a person at a terminal: one line per call, and other lines with their fields and errors. Used by `log.ts` in place
 * of JSON. Control characters are removed from the text of callers and tools.
 */

import { styleText } from 'node:util'
import { cleanText } from '#kernel/base/json'
import { isForeignFrame, textOfThrown } from '#kernel/base/thrown'

/** The facts about a call that its line shows. */
export interface CallLine {
  readonly tool: string
  readonly principal: string
  /** Absent for a call from code in this process. */
  readonly protocol: string | undefined
  readonly durationMs: number
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  /** Where to decide or consent; or the error message, if the reader is the author of the tools. */
  readonly message?: string | undefined
}

export type TerminalLines = ReturnType<typeof terminalLines>

type Style = 'dim' | 'bold' | 'red' | 'green' | 'yellow' | 'cyan'

const LEVEL_STYLES: Readonly<Record<string, Style>> = {
  debug: 'dim',
  info: 'cyan',
  warn: 'yellow',
  error: 'red',
}
/** Outcomes of calls that did not fail but wait for a person. */
const WAITING: ReadonlySet<string> = new Set(['approval_required', 'requirement_missing'])
const LEVEL_WIDTH = 5
/** Maximum number of stack frames that are shown. */
const MAX_FRAMES = 6
const MS_PER_SECOND = 1_000

/** Returns functions that format log lines for a person. */
export function terminalLines(options: { readonly isColored: boolean; now(): Date }) {
  const paint = (style: Style, text: string): string =>
    options.isColored ? styleText(style, text, { validateStream: false }) : text
  /** Text of the last logged exception, so that the line of the failed call does not repeat it. */
  let lastThrown = ''
  const time = (): string => paint('dim', options.now().toTimeString().slice(0, 8))
  return {
    line(level: string, fields: Readonly<Record<string, unknown>>, message: string | undefined): string {
      const { err, ...rest } = fields
      const name = paint(LEVEL_STYLES[level] ?? 'dim', level.padEnd(LEVEL_WIDTH))
      const facts = Object.entries(rest).map(([key, value]) => paint('dim', ` ${key}=${fieldText(value)}`))
      lastThrown = err === undefined ? '' : textOfThrown(err)
      const text = message ?? (err === undefined ? '' : textOfThrown(err))
      return `${time()} ${name} ${cleanText(text)}${facts.join('')}\n${errorLines(err, message)}`
    },
    call({ tool, principal, protocol, durationMs, outcome, isReplay, message }: CallLine): string {
      const mark = markOf(outcome)
      const who = cleanText(principal)
      const parts = [
        paint('bold', cleanText(tool)),
        paint('dim', durationText(durationMs)),
        ...(outcome === 'ok' ? [] : [paint(mark.style, outcome)]),
        paint('dim', protocol === undefined ? who : `${who} over ${protocol}`),
        ...(isReplay ? [paint('dim', '(stored result)')] : []),
      ]
      const isRedundant = message === undefined || (lastThrown !== '' && message.includes(lastThrown))
      const why = isRedundant ? '' : `           ${cleanText(message)}\n`
      lastThrown = ''
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

function fieldText(value: unknown): string {
  if (typeof value === 'string') return cleanText(value)
  try {
    return cleanText(JSON.stringify(value) ?? String(value))
  } catch {
    return '[object]'
  }
}

/** The error and its stack, below the line that reports it. */
function errorLines(err: unknown, message: string | undefined): string {
  if (err === undefined) return ''
  const text = message === undefined ? [] : [textOfThrown(err)]
  const stack = err instanceof Error ? (err.stack ?? '').split('\n') : []
  const all = stack.filter((line) => /^\s+at /.test(line))
  const own = all.filter((line) => !isForeignFrame(line))
  const frames = own.length > 0 ? own : all
  const cause = err instanceof Error && err.cause !== undefined ? [`cause: ${textOfThrown(err.cause)}`] : []
  return [...text, ...frames.slice(0, MAX_FRAMES).map((line) => `  ${line.trim()}`), ...cause]
    .map((line) => `         ${cleanText(line)}\n`)
    .join('')
}
