import type { ReactNode } from 'react'
import type { Condition } from '../../api/tools.ts'
import { formatClock } from '../../parts/format.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { WORDS } from './words.tsx'

/*
 * The most serious problem of a tool in a few words. `tool-table.tsx` uses it. It is empty if there is none.
 */

/** The most serious problem of a tool in a few words; the tooltip has the others. Empty if there is none. */
export function ConditionMark({ condition }: { readonly condition: Condition | undefined }): ReactNode {
  if (condition === undefined) return null
  const { icon, tone, text, more } = textFor(condition)
  return (
    <span className={`state ${tone}`} title={more}>
      <Icon name={icon} size={14} />
      <span className="clip">{text}</span>
    </span>
  )
}

interface ConditionText {
  readonly icon: IconName
  readonly tone: 'is-failed' | 'is-parked' | 'is-quiet'
  readonly text: string
  readonly more?: string | undefined
}

function textFor(condition: Condition): ConditionText {
  switch (condition.kind) {
    case 'unavailable':
      return {
        ...{ icon: 'failed', tone: 'is-failed' },
        text: WORDS.unavailable(since(condition.source.since)),
        more: condition.source.reason ?? undefined,
      }
    case 'degraded':
      return {
        ...{ icon: 'alert', tone: 'is-parked' },
        text: WORDS.degraded(since(condition.source.since)),
        more: condition.source.reason ?? undefined,
      }
    case 'held':
      return {
        ...{ icon: 'pin', tone: 'is-parked', text: WORDS.changeHeld(condition.change.class) },
        more: condition.change.suspended ? WORDS.callsAreRejectedUntilChange : undefined,
      }
    case 'missing':
      return { icon: 'key', tone: 'is-parked', ...missing(condition.requirement) }
    case 'deprecated':
      return { icon: 'clock', tone: 'is-quiet', text: WORDS.deprecated }
  }
}

type Requirement = Extract<Condition, { kind: 'missing' }>['requirement']

function missing({ kind, id, state }: Requirement): Pick<ConditionText, 'text' | 'more'> {
  if (kind === 'user') return { text: WORDS.needsProvenUser }
  if (kind === 'scope') return { text: WORDS.noCallerHas(id) }
  if (kind === 'secret') return { text: WORDS.setSecret, more: id }
  if (state === 'scopes') return { text: WORDS.connectAgain(id), more: WORDS.accessLacksPermission(id) }
  if (state === 'spent') return { text: WORDS.connectAgain(id), more: WORDS.refusedRenewAccess(id) }
  return { text: WORDS.connect(id) }
}

/** The time without seconds, which the tool's page shows. */
function since(moment: string | null): string {
  return moment === null ? '' : ` since ${formatClock(moment).slice(0, -':00'.length)}`
}
