import type { ReactNode } from 'react'
import { Diff } from './code.tsx'
import { Tag, type Tone } from './meaning.tsx'
import { visibleJson, visibleText } from './visible-text.ts'
import { WORDS } from './words.tsx'

/*
 * The differences between two definitions of a tool. Used by several pages. Untrusted texts are shown with their invisible
 * characters.
 */

/** One difference between two definitions of a tool, as the server found it. */
export interface Difference {
  /** The path of the changed member: `description`, `input/properties/labels`. */
  readonly where: string
  readonly class: string
  readonly says: string
  readonly before?: unknown
  readonly after?: unknown
}

/** The differences between two definitions, each with its class, a sentence and the changed texts. */
export function Differences({ differences }: { readonly differences: readonly Difference[] }): ReactNode {
  const sorted = differences.toSorted((left, right) => rankOf(left) - rankOf(right))
  return (
    <ul className="sem">
      {sorted.map((difference) => (
        <li key={`${difference.where} ${difference.class} ${difference.says}`}>
          <p>
            <Tag tone={TONES[difference.class]}>{difference.class}</Tag>
            <span className="grow">
              <code>{visibleText(difference.where)}</code> {visibleText(difference.says)}
            </span>
          </p>
          <Change {...difference} />
        </li>
      ))}
    </ul>
  )
}

const TONES: Readonly<Record<string, Tone>> = { suspicious: 'failed', breaking: 'parked' }
const ORDER = ['suspicious', 'breaking', 'widening', 'wording']

function rankOf({ class: name }: Difference): number {
  const at = ORDER.indexOf(name)
  return at === -1 ? ORDER.length : at
}

/** Shows the old and the new text, and marks the span of the new one that changed. */
function Change({ where, before, after }: Difference): ReactNode {
  if (before === undefined && after === undefined) return null
  const [was, is] = [textOf(before), textOf(after)]
  const [start, added, end] = splitChanged(was ?? '', is ?? '')
  return (
    <Diff
      label={WORDS.beforeAfter(where)}
      lines={[
        ...(was === undefined ? [] : [{ kind: 'del' as const, text: was }]),
        ...(is === undefined
          ? []
          : [
              {
                kind: 'add' as const,
                text: was === undefined || added === '' ? is : [start, <mark key="new">{added}</mark>, end],
              },
            ]),
      ]}
    />
  )
}

function textOf(value: unknown): string | undefined {
  if (value === undefined) return undefined
  return typeof value === 'string' ? visibleText(value) : visibleJson(value)
}

/** Splits the second text into the common prefix, the changed part and the common suffix, at word boundaries. */
function splitChanged(before: string, after: string): readonly [string, string, string] {
  const [old, now] = [wordsOf(before), wordsOf(after)]
  let first = 0
  while (first < old.length && first < now.length && old[first] === now[first]) first += 1
  let last = 0
  const maxLast = Math.min(old.length, now.length) - first
  while (last < maxLast && old[old.length - 1 - last] === now[now.length - 1 - last]) last += 1
  const until = now.length - last
  return [now.slice(0, first).join(''), now.slice(first, until).join(''), now.slice(until).join('')]
}

function wordsOf(text: string): readonly string[] {
  return text.split(/(?<=\s)/)
}
