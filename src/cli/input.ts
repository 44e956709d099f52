import { readStart } from '#kernel/base/bytes'
import { type CommandContext, UsageError } from './command.ts'

/**
 * Input from a person or a pipe: questions on a terminal, secrets that are typed hidden, and stdin as text.
 * Commands use it instead of `process.stdin`. Invariant: without a terminal no question is asked, and the answer
 * counts as no.
 */

/**
 * Asks on a terminal. Only "y" and "yes" count as yes; with `default: 'yes'` an empty line does too. Without a
 * terminal, or if the input ends, the answer is no.
 */
export async function confirm(
  context: CommandContext,
  question: string,
  { default: emptyAnswer = 'no' }: { readonly default?: 'yes' | 'no' } = {},
): Promise<boolean> {
  const answer = await askLine(context, `${question} ${emptyAnswer === 'yes' ? '[Y/n]' : '[y/N]'}`)
  return answer !== undefined && (answer === '' ? emptyAnswer === 'yes' : /^y(?:es)?$/i.test(answer))
}

/** Returns one line typed on a terminal, trimmed; `undefined` without a terminal or when the input ends. */
export async function askLine(
  { stdin, output }: CommandContext,
  question: string,
): Promise<string | undefined> {
  if (stdin.isTTY !== true) return undefined
  output.note(question)
  const answer = await nextChunk(stdin)
  return answer === undefined ? undefined : Buffer.from(answer).toString('utf8').trim()
}

type Stdin = CommandContext['stdin']

/** There is one iterator per stdin, because leaving a loop over stdin would close it, and there may be another question. */
const READERS = new WeakMap<Stdin, AsyncIterator<string | Uint8Array>>()

async function nextChunk(stdin: Stdin): Promise<string | Uint8Array | undefined> {
  const reader = READERS.get(stdin) ?? stdin[Symbol.asyncIterator]()
  READERS.set(stdin, reader)
  const { done, value } = await reader.next()
  return done === true ? undefined : value
}

const BACKSPACES = new Set(['\u007f', '\b'])
const INTERRUPT = '\u0003'
const ENDS = new Set(['\r', '\n', '\u0004'])

/** Reads a value from stdin without its final line break; on a terminal it asks, and does not echo the value. */
export async function readHidden({ stdin, output }: CommandContext, what: string): Promise<string> {
  const value =
    stdin.isTTY === true
      ? await readTyped(stdin, () => output.note(`${what}, not shown; Enter ends it:`))
      : await readAll(stdin)
  const text = value.replace(/\r?\n$/, '')
  if (text === '')
    throw new UsageError('There is no value. Write it to stdin; it is never taken from the command line.')
  return text
}

async function readTyped(stdin: Stdin, ask: () => void): Promise<string> {
  stdin.setRawMode?.(true)
  ask()
  try {
    const typed: string[] = []
    for (let chunk = await nextChunk(stdin); chunk !== undefined; chunk = await nextChunk(stdin)) {
      for (const key of typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')) {
        if (ENDS.has(key)) return typed.join('')
        if (key === INTERRUPT) throw new UsageError('Nothing was set.')
        if (BACKSPACES.has(key)) typed.pop()
        else typed.push(key)
      }
    }
    return typed.join('')
  } finally {
    stdin.setRawMode?.(false)
  }
}

const MAX_INPUT_BYTES = 64 * 1024 * 1024

export async function readAll(stdin: Stdin): Promise<string> {
  const { bytes, isWhole } = await readStart(stdin, MAX_INPUT_BYTES)
  if (!isWhole) throw new UsageError('The input on stdin is too large.')
  return bytes.toString('utf8')
}
