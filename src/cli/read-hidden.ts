import type { CommandContext } from './command.ts'
import { readAll } from './read-all.ts'
import { UsageError } from './usage-error.ts'

const BACKSPACES = new Set(['\u007f', '\b'])
const INTERRUPT = '\u0003'
const ENDS = new Set(['\r', '\n', '\u0004'])

/** A value from stdin, without its last line end; typed on a terminal it is asked for and not shown. */
export async function readHidden({ stdin, output }: CommandContext, what: string): Promise<string> {
  const value =
    stdin.isTTY === true
      ? await readTyped(stdin, () => output.note(`${what}, not shown; Enter ends it:`))
      : await readAll(stdin)
  const text = value.replace(/\r?\n$/, '')
  if (text === '')
    throw new UsageError('There is no value. Write it to stdin: it is never taken from the command line.')
  return text
}

async function readTyped(stdin: CommandContext['stdin'], ask: () => void): Promise<string> {
  stdin.setRawMode?.(true)
  ask()
  try {
    const typed: string[] = []
    for await (const chunk of stdin) {
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
