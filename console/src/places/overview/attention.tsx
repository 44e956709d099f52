import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { formatClock, formatCount } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateMark } from '../../parts/meaning.tsx'
import { Meter } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { Overview } from './overview-data.ts'
import { words } from './words.ts'

/*
 * What needs attention now, each with a link to the page where a person can deal with it. `page.tsx` uses it. The server leaves out
 * what the credential may not see.
 */

type AttentionFacts = Overview['attention']

export function Attention({ attention }: { readonly attention: AttentionFacts }): ReactNode {
  const { approvals, ambiguous, held, sources, budgets } = attention
  const isQuiet = !approvals && ambiguous === 0 && !held?.length && !sources?.length && budgets.length === 0
  return (
    <section aria-labelledby="attention-h">
      <div className="sec-head">
        <h2 id="attention-h">{words.attention}</h2>
      </div>
      {isQuiet ? (
        <p className="row soft">
          <Icon name="check" size={14} />
          {words.quiet}
        </p>
      ) : (
        <ul className="needs-list">
          {sources?.map((source) => (
            <BrokenSource key={source.key} source={source} />
          ))}
          {ambiguous > 0 && (
            <li>
              <Link to="/calls" search={{ q: 'status:ambiguous' }}>
                <StateMark state="ambiguous" label={words.ambiguous(ambiguous)} />
              </Link>
            </li>
          )}
          {approvals !== null && approvals > 0 && (
            <li>
              <Link to="/approvals">
                <StateMark state="parked" label={words.waiting(approvals, approvals >= MAX_LISTED)} />
              </Link>
            </li>
          )}
          {held?.map(({ source, definitions }) => (
            <li key={source}>
              <Link to="/sources">
                <StateMark state="parked" label={visibleText(source)} />
                <span className="soft">{words.held(definitions)}</span>
              </Link>
            </li>
          ))}
          {budgets.map((budget) => (
            <FullBudget key={keyOf(budget)} budget={budget} />
          ))}
        </ul>
      )}
    </section>
  )
}

/** The server counts no more approvals than this. */
const MAX_LISTED = 100

function BrokenSource({ source }: { readonly source: BrokenSourceFacts }): ReactNode {
  const { key, state, reason, since } = source
  return (
    <li>
      <Link to="/sources">
        <StateMark state="unavailable" label={visibleText(key)} />
        <span className="soft">
          {words.state[state]} {words.since(formatClock(since))}
        </span>
        {reason !== null && <span className="dim">{visibleText(reason)}</span>}
      </Link>
    </li>
  )
}

type BrokenSourceFacts = NonNullable<AttentionFacts['sources']>[number]

function FullBudget({ budget }: { readonly budget: AttentionFacts['budgets'][number] }): ReactNode {
  const { tenant, principal, unit, used, limit, resets_at: resetsAt } = budget
  const who = principal === null ? words.wholeTenant(tenant) : principal.replace(/^key:/, '')
  const name = words.budgetOf(visibleText(who), Math.round((100 * used) / limit))
  return (
    <li>
      <Link to="/settings">
        <StateMark state={used >= limit ? 'failed' : 'parked'} label={name} />
        <span className="soft num">
          {words.budget(shown(used), shown(limit), unit)}, {words.resets(formatClock(resetsAt))}
        </span>
        <Meter label={name} value={used} max={limit} />
      </Link>
    </li>
  )
}

function keyOf({
  tenant,
  principal,
  window_seconds: seconds,
  unit,
}: AttentionFacts['budgets'][number]): string {
  return JSON.stringify([tenant, principal, seconds, unit])
}

function shown(amount: number): string {
  return formatCount(Math.round(amount * 100) / 100)
}
