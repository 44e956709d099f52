import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { type Budget, budgetsQuery } from '../../api/budgets.ts'
import { Section } from '../../app/page.tsx'
import { formatClock, formatCount, formatDuration } from '../../parts/format.ts'
import { Empty, Found, Meter } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { type CallerUsage, type LimitRule, limitsQuery, type Span, usageQuery } from './settings-data.ts'
import { WORDS } from './words.tsx'

/*
 * The limits and their usage. `page.tsx` uses it. They are set in the config, so this section is read-only.
 */

interface SectionProps {
  readonly onCommand: (command: string) => void
}

/** Limits and their usage. They are set in the config. */
export function Limits({ onCommand }: SectionProps): ReactNode {
  return (
    <Section
      id="limits"
      title={WORDS.limitsBudgets}
      scope="admin:calls"
      onEnter={() => onCommand('collet budgets')}
    >
      <Meters />
    </Section>
  )
}

function Meters(): ReactNode {
  const limits = useQuery(limitsQuery)
  const budgets = useQuery(budgetsQuery)
  return (
    <Found query={limits} what={WORDS.limits}>
      {({ now, rules }) => (
        <Found query={budgets} what={WORDS.budgets}>
          {(openBudgets) => {
            const meters = [...now.flatMap(loadMeter), ...openBudgets.flatMap(budgetMeters)]
            return meters.length === 0 && rules.length === 0 ? (
              <Empty title={WORDS.noLimits}>{WORDS.setLimitsBudgetsInConfig}</Empty>
            ) : (
              <>
                <ul className="meters">
                  {meters.map((meter) => (
                    <UsageMeter key={meter.name} {...meter} />
                  ))}
                  {rules.map((rule) => (
                    <li key={`${rule.of} ${rule.name}`} className="row">
                      <span className="grow">{subjectOf(rule)}</span>
                      <span className="num soft">{termsOf(rule)}</span>
                    </li>
                  ))}
                </ul>
                {openBudgets.length > 0 && <p className="meta dim">{RESERVED}</p>}
              </>
            )
          }}
        </Found>
      )}
    </Found>
  )
}

const RESERVED = WORDS.serversReservePartsBudgetIn

interface MeterFacts {
  readonly name: string
  readonly used: number
  readonly limit: number
  readonly resetsAt?: string
}

function UsageMeter({ name, used, limit, resetsAt }: MeterFacts): ReactNode {
  const isNear = used >= limit * 0.9
  return (
    <li>
      <div className="row">
        <span className="grow clip" title={resetsAt && WORDS.resetsAt(formatClock(resetsAt))}>
          {name}
        </span>
        <span className={isNear ? 'num is-parked' : 'num soft'}>
          {WORDS.of(<b>{shown(used)}</b>, shown(limit))}
        </span>
      </div>
      <Meter label={WORDS.used(name, Math.round((100 * used) / limit))} value={used} max={limit} />
    </li>
  )
}

function shown(amount: number): string {
  return formatCount(Math.round(amount * 100) / 100)
}

function loadMeter(load: { what: string; used: number; limit: number | null }): readonly MeterFacts[] {
  if (load.limit === null) return []
  const name = load.what === 'running' ? WORDS.concurrentCalls : WORDS.pendingWrites
  return [{ name, used: load.used, limit: load.limit }]
}

function budgetMeters({
  tenant,
  principal,
  window_seconds,
  resets_at,
  units,
}: Budget): readonly MeterFacts[] {
  const who = principal === null ? `tenant ${tenant}` : principal.replace(/^key:/, '')
  const each = formatDuration(window_seconds * 1000)
  return units.flatMap(({ unit, used, limit }) =>
    limit === null
      ? []
      : [{ name: WORDS.inWord(UNITS[unit] ?? unit, each, who), used, limit, resetsAt: resets_at }],
  )
}

const UNITS: Readonly<Record<string, string>> = {
  calls: WORDS.calls,
  cost: WORDS.costUnits,
  seconds: WORDS.seconds,
}

function subjectOf({ of, name }: LimitRule): string {
  if (of === 'server') return WORDS.wholeServer
  if (name === null) return WORDS.each(of)
  return name.replace(/^key:/, '')
}

function termsOf({ rate, at_once }: LimitRule): string {
  const parts = [
    rate === null ? '' : WORDS.callsMinute(shown(rate.per_minute)),
    at_once === null ? '' : WORDS.atOnce(shown(at_once)),
  ]
  return parts.filter((part) => part !== '').join(', ')
}

const SPANS = [
  { value: '24h', label: WORDS.n24Hours },
  { value: '7d', label: WORDS.n7Days },
  { value: '30d', label: WORDS.n30Days },
] as const

const COLUMNS = [
  { title: WORDS.caller },
  { title: WORDS.calls, className: 'c-u', isEnd: true },
  { title: WORDS.errors, className: 'c-u', isEnd: true },
  { title: WORDS.rejected, className: 'c-u', isEnd: true },
  { title: WORDS.runTime, className: 'c-u', isEnd: true },
  { title: WORDS.cost, className: 'c-u', isEnd: true },
] as const

/** Usage by caller. Each row links to its calls. */
export function Usage({ onCommand }: SectionProps): ReactNode {
  const [span, setSpan] = useState<Span>('24h')
  const echo = (next: Span): void => onCommand(`collet usage --since ${next}`)
  return (
    <Section
      id="use"
      title={WORDS.usageByCaller}
      scope="admin:calls"
      onEnter={() => echo(span)}
      actions={
        <Segment
          label={WORDS.time}
          value={span}
          options={SPANS}
          onChange={(next) => {
            setSpan(next)
            echo(next)
          }}
        />
      }
    >
      <UsageByCaller span={span} />
    </Section>
  )
}

function UsageByCaller({ span }: { readonly span: Span }): ReactNode {
  const usage = useQuery(usageQuery(span))
  return (
    <Found query={usage} what={WORDS.usage}>
      {({ callers, whole }) =>
        callers.length === 0 ? (
          <Empty title={WORDS.noCallsInThisPeriod}>{WORDS.callersAppearHereWithTheir}</Empty>
        ) : (
          <>
            <Table caption={WORDS.usageByCaller} columns={COLUMNS} className="use">
              <tbody>
                {callers.map((caller) => (
                  <CallerRow key={caller.key} caller={caller} span={span} />
                ))}
              </tbody>
            </Table>
            {!whole && <p className="meta dim after-table">{WORDS.notAllCallsWereCounted}</p>}
          </>
        )
      }
    </Found>
  )
}

function CallerRow({ caller, span }: { readonly caller: CallerUsage; readonly span: Span }): ReactNode {
  const { principal, tenant, calls, errors, rejected, seconds, cost } = caller
  return (
    <tr>
      <th scope="row" className="strong clip" title={principal}>
        <Link className="link" to="/calls" search={{ q: `principal:${principal} since:${span}` }}>
          {principal.replace(/^key:/, '')}
        </Link>
        {tenant !== 'default' && <span className="dim"> {WORDS.tenant(tenant)}</span>}
      </th>
      <td data-l="calls" className="num end">
        {formatCount(calls)}
      </td>
      <td data-l="errors" className={errors === 0 ? 'num end soft' : 'num end is-failed'}>
        {formatCount(errors)}
      </td>
      <td data-l="rejected" className={rejected === 0 ? 'num end soft' : 'num end is-failed'}>
        {rejected === 0 ? (
          '0'
        ) : (
          <Link to="/calls" search={{ q: WORDS.principalStatusRejectedSince(principal, span) }}>
            {formatCount(rejected)}
          </Link>
        )}
      </td>
      <td data-l="run time" className="num end soft">
        {formatDuration(seconds * 1000)}
      </td>
      <td data-l="cost" className="num end soft">
        {formatCount(Math.round(cost * 100) / 100)}
      </td>
    </tr>
  )
}
