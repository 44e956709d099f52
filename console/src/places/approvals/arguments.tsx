import { type ReactNode, useState } from 'react'
import { Code } from '../../parts/code.tsx'
import { countOf, formatBytes } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { visibleJson, visibleText } from '../../parts/visible-text.ts'
import type { WholeApproval } from './approval-data.ts'

const VIEWS = [
  { value: 'readable', label: 'Readable' },
  { value: 'json', label: 'JSON' },
] as const

/** The input of the call, whole: what a person says yes to. Characters that hide or turn text are spelled out. */
export function Arguments({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const [view, setView] = useState<'readable' | 'json'>('readable')
  const { input, input_bytes: bytes, hidden_values: hidden, hides_something: hides } = approval
  const members = membersOf(input, approval.summary)
  return (
    <section aria-labelledby="args-h">
      <div className="sec-head">
        <h3 id="args-h" className="grow">
          Exactly this will be handed to the tool
        </h3>
        <Segment label="View of the arguments" value={view} options={VIEWS} onChange={setView} />
      </div>
      {view === 'json' || members === undefined ? (
        <Code text={visibleJson(input)} label={`Input, ${formatBytes(bytes)}`} isJson className="args-json" />
      ) : members.length === 0 ? (
        <p className="args soft none">No arguments.</p>
      ) : (
        <dl className="args">
          {members.map(([name, value]) => (
            <div key={name}>
              <dt>{visibleText(name)}</dt>
              <Value name={name} value={value} />
            </div>
          ))}
        </dl>
      )}
      {hidden > 0 && (
        <Note tone="parked">
          {countOf(hidden, 'value')} {hidden === 1 ? 'is' : 'are'} hidden from you: the caller sent the same
          text as a credential for the tool.
        </Note>
      )}
      {hides && hidden === 0 && (
        <Note tone="parked">
          This is not the whole input: an earlier version asked, and kept only a summary.
        </Note>
      )}
    </section>
  )
}

/** In the order of the summary, which has first what the tool declares: a caller must not push that out of sight with members that mean nothing. */
function membersOf(input: unknown, summary: unknown): readonly (readonly [string, unknown])[] | undefined {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return undefined
  const order = typeof summary === 'object' && summary !== null ? Object.keys(summary) : []
  const placeOf = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length)
  return Object.entries(input).toSorted(([left], [right]) => placeOf(left) - placeOf(right))
}

const LONGEST_INLINE = 600
/** From here on a text is for reading, not a word of a machine. */
const PROSE = 60

function Value({ name, value }: { readonly name: string; readonly value: unknown }): ReactNode {
  if (Array.isArray(value) && value.length > 0 && value.every(isScalar))
    return (
      <dd className="argv">
        {value.map((part, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the words of a command have no names and keep their order.
          <code key={index}>{wordOf(part)}</code>
        ))}
      </dd>
    )
  const text = typeof value === 'string' ? wordOf(value) : visibleJson(value)
  const isLarge = text.length > LONGEST_INLINE || (!isScalar(value) && text.includes('\n'))
  if (isLarge)
    return (
      <dd>
        <Code text={text} label={visibleText(name)} isJson={typeof value !== 'string'} />
      </dd>
    )
  if (typeof value === 'string' && (text.length > PROSE || text.includes('\n')))
    return <dd className="prose">{text}</dd>
  return (
    <dd>
      <code>{text}</code>
    </dd>
  )
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value !== 'object'
}

/** A text that reads like another kind of value, or like nothing, is quoted: `"5"` is not `5`. */
function wordOf(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value) ?? String(value)
  const isMistakable = value.trim() !== value || /^(?:|-?\d[\d.e+-]*|true|false|null|".*")$/is.test(value)
  return visibleText(isMistakable ? JSON.stringify(value) : value)
}
