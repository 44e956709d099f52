import { readFileSync } from 'node:fs'

export interface MarkdownBlock {
  readonly language: string
  readonly text: string
  /** Line of the opening fence, from 1. */
  readonly line: number
}

/** The fenced blocks of a document, in order. */
export function readBlocks(file: string): readonly MarkdownBlock[] {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1] ?? '',
    text: match[2] ?? '',
    line: text.slice(0, match.index).split('\n').length,
  }))
}
