/** What a description says besides its own text. */
export interface DescriptionParts {
  readonly text: string | undefined
  readonly alternatives: readonly string[]
  readonly nullable: boolean
  readonly notes: readonly string[]
}

/** `Size of the page. One of: …. May be null. Constraints: minimum 1; maximum 9`; `undefined` if there is nothing to say. */
export function composeDescription(parts: DescriptionParts): string | undefined {
  const { text, alternatives, nullable, notes } = parts
  const added = [
    ...(alternatives.length > 0 ? [`One of: ${alternatives.join(', ')}`] : []),
    ...(nullable ? ['May be null'] : []),
    ...(notes.length > 0 ? [`Constraints: ${notes.join('; ')}`] : []),
  ].join('. ')
  return added === '' ? text : joinSentences(text ?? '', added)
}

/** One text after the other, with a full stop between them. */
export function joinSentences(first: string, second: string): string {
  const start = first.trimEnd()
  if (start === '' || second === '') return start === '' ? second : first
  return /[.!?:;]$/.test(start) ? `${start} ${second}` : `${start}. ${second}`
}
