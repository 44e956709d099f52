import type { ReactNode } from 'react'
import { Differences } from '../../parts/differences.tsx'
import { countOf, formatClock, shortHash } from '../../parts/format.ts'
import { Tag, type Tone } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { ToolDetails } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * The held changes of a tool, its accepted definition and earlier definitions. `page.tsx` uses it.
 */

/** The tool's held changes, its accepted definition, and earlier definitions that were called. */
export function Changes({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const { pin, seen, versions, definition_hash: hash } = tool
  return (
    <section id="changes" aria-labelledby="changes-h">
      <h2 id="changes-h">{WORDS.changes}</h2>
      <ol className="changes">
        {pin !== null && pin.waiting !== null && (
          <>
            <li>
              <code className="strong">{pin.next_version ?? 'gone'}</code>
              <Tag tone={TONES[pin.waiting.class]}>{pin.waiting.class}</Tag>
              <span className="grow" dir="auto">
                {visibleText(pin.waiting.reasons.join(' ')) || WORDS.waitingForDecision}
              </span>
              <When at={pin.waiting.seen_at} />
            </li>
            <li className="code">
              <Differences differences={pin.differences} />
            </li>
          </>
        )}
        {pin !== null && pin.hash !== null && (
          <li>
            <code className="strong">{pin.version ?? ''}</code>
            <Tag>{WORDS.accepted}</Tag>
            <span className="grow clip dim">
              {pin.accepted_by === null ? '' : WORDS.by(pin.accepted_by)}
              <span className="mono">{shortHash(pin.hash)}</span>
            </span>
            <When at={pin.accepted_at} />
          </li>
        )}
        {versions.map((version) => (
          <li key={version.version}>
            <code className="strong">{version.version}</code>
            <Tag>{version.definition_hash === hash ? WORDS.shownHere : 'served'}</Tag>
            <span className="grow clip dim mono">{shortHash(version.definition_hash)}</span>
          </li>
        ))}
        {earlierOf(tool).map((one) => (
          <li key={`${one.tool} ${one.definition_hash}`}>
            <code className="strong">{one.tool.split('@')[1]}</code>
            <Tag>{WORDS.earlier}</Tag>
            <span className="grow clip dim">
              <span className="mono">{shortHash(one.definition_hash)}</span>, {countOf(one.calls, 'call')}
            </span>
            <When at={one.last_at} />
          </li>
        ))}
      </ol>
      {seen === null && pin === null && <p className="dim">{WORDS.definitionsEarlierCallsAreShown}</p>}
    </section>
  )
}

const TONES: Readonly<Record<string, Tone>> = { suspicious: 'failed', breaking: 'parked' }

/** Definitions that calls ran on and that are no longer served. */
function earlierOf({ seen, versions }: ToolDetails): NonNullable<ToolDetails['seen']> {
  const served = new Set(versions.map(({ definition_hash: hash }) => hash))
  return (seen ?? []).filter(({ definition_hash: hash }) => !served.has(hash))
}

export function countChanges(tool: ToolDetails): number {
  const held = tool.pin === null || tool.pin.waiting === null ? 0 : 1
  return held + tool.versions.length + earlierOf(tool).length
}

function When({ at }: { readonly at: string | null }): ReactNode {
  if (at === null) return null
  return (
    <time className="dim num nowrap" dateTime={at}>
      {formatClock(at)}
    </time>
  )
}
