import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Detection } from '#server/import/detect'
import type { ImportType } from '#server/import/probe'
import type { CommandContext } from './command.ts'
import { UsageError } from './usage-error.ts'

/** What the words of `collet import` name. */
export type ImportTarget =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'command'; readonly words: readonly string[] }

export function readTarget(words: readonly string[], { workingFolder }: CommandContext): ImportTarget {
  const [first = ''] = words
  if (words.length > 1 && /^https?:\/\//.test(first)) throw new UsageError('Import one address at a time.')
  if (words.length === 1) {
    const url = URL.parse(first)
    if (url !== null && /^https?:$/.test(url.protocol)) return { kind: 'url', url: checkedUrl(first, url) }
    const file = resolve(workingFolder, first)
    if (existsSync(file)) return { kind: 'file', file }
    if (/[./\\]/.test(first))
      throw new UsageError(`There is no file ${file}, and it is no http or https URL.`)
  }
  return { kind: 'command', words }
}

function checkedUrl(text: string, url: URL): string {
  if (url.username !== '' || url.password !== '')
    throw new UsageError('Leave the password out of the URL; --api-key reads a key from stdin.')
  if (url.hash !== '') throw new UsageError('Leave out what follows # in the URL.')
  return text
}

export interface FindOptions {
  readonly send: typeof fetch
  readonly signal: AbortSignal
  readonly apiKey: string | undefined
  readonly only: ImportType | undefined
}

/** Finds out what a target is, saying what it does on the way. */
export async function findSource(
  target: ImportTarget,
  { send, signal, apiKey, only }: FindOptions,
  { output, workingFolder }: CommandContext,
): Promise<Detection> {
  switch (target.kind) {
    case 'url': {
      const { detectUrl } = await import('#server/import/detect')
      const onStep = (text: string): void => output.note(text)
      const rules = { send, signal, apiKey, onStep, ...(only === undefined ? {} : { only }) }
      return await detectUrl(target.url, rules)
    }
    case 'file': {
      const { detectFile } = await import('#server/import/detect')
      output.note(`Reading ${target.file}`)
      return await detectFile(target.file)
    }
    case 'command': {
      const { foundCommand } = await import('#server/import/detect')
      return { found: foundCommand(target.words, workingFolder), seen: [] }
    }
  }
}
