import type { CommandContext } from './command.ts'

/** Asks on a terminal; anything but a yes is a no, also that nobody is there. */
export async function confirm({ stdin, output }: CommandContext, question: string): Promise<boolean> {
  if (stdin.isTTY !== true) return false
  output.note(`${question} [y/N]`)
  for await (const chunk of stdin) return /^\s*y(?:es)?\s*$/i.test(Buffer.from(chunk).toString('utf8'))
  return false
}
