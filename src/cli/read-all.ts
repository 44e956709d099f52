import type { CliIo } from './cli-io.ts'
import { UsageError } from './usage-error.ts'

const LARGEST_INPUT_BYTES = 64 * 1024 * 1024

/** All of stdin as text. */
export async function readAll(stdin: CliIo['stdin']): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of stdin) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    size += bytes.length
    if (size > LARGEST_INPUT_BYTES) throw new UsageError('The input on stdin is too large.')
    chunks.push(bytes)
  }
  return Buffer.concat(chunks).toString('utf8')
}
