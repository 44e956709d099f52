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
      title="Limits and budgets"
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
    <Found query={limits} what="The limits">
      {({ now, rules }) => (
        <Found query={budgets} what="The budgets">
          {(openBudgets) => {
            const meters = [...now.flatMap(loadMeter), ...openBudgets.flatMap(budgetMeters)]
            return meters.length === 0 && rules.length === 0 ? (
              <Empty title="No limits">
                Set limits and budgets in the config, and reload it. Budgets appear here after their first
                use.
              </Empty>
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

const RESERVED =
  'Servers reserve parts of a budget in advance, which count as used. Reservations of a crashed server are freed when the budget resets.'

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
        <span className="grow clip" title={resetsAt && `Resets at ${formatClock(resetsAt)}`}>
          {name}
        </span>
        <span className={isNear ? 'num is-parked' : 'num soft'}>
          <b>{shown(used)}</b> of {shown(limit)}
        </span>
      </div>
      <Meter label={`${name}: ${Math.round((100 * used) / limit)} % used`} value={used} max={limit} />
    </li>
  )
}

function shown(amount: number): string {
  return formatCount(Math.round(amount * 100) / 100)
}

function loadMeter(load: { what: string; used: number; limit: number | null }): readonly MeterFacts[] {
  if (load.limit === null) return []
  const name = load.what === 'running' ? 'Concurrent calls' : 'Pending writes'
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
      : [{ name: `${UNITS[unit] ?? unit} in ${each}, ${who}`, used, limit, resetsAt: resets_at }],
  )
}

const UNITS: Readonly<Record<string, string>> = { calls: 'Calls', cost: 'Cost units', seconds: 'Seconds' }

function subjectOf({ of, name }: LimitRule): string {
  if (of === 'server') return 'The whole server'
  if (name === null) return `Each ${of}`
  return name.replace(/^key:/, '')
}

function termsOf({ rate, at_once }: LimitRule): string {
  const parts = [
    rate === null ? '' : `${shown(rate.per_minute)} calls a minute`,
    at_once === null ? '' : `${shown(at_once)} at once`,
  ]
  return parts.filter((part) => part !== '').join(', ')
}

const SPANS = [
  { value: '24h', label: '24 hours' },
  { value: '7d', label: '7 days' },
  { value: '30d', label: '30 days' },
] as const

const COLUMNS = [
  { title: 'Caller' },
  { title: 'Calls', className: 'c-u', isEnd: true },
  { title: 'Errors', className: 'c-u', isEnd: true },
  { title: 'Rejected', className: 'c-u', isEnd: true },
  { title: 'Run time', className: 'c-u', isEnd: true },
  { title: 'Cost', className: 'c-u', isEnd: true },
] as const

/** Usage by caller. Each row links to its calls. */
export function Usage({ onCommand }: SectionProps): ReactNode {
  const [span, setSpan] = useState<Span>('24h')
  const echo = (next: Span): void => onCommand(`collet usage --since ${next}`)
  return (
    <Section
      id="use"
      title="Usage by caller"
      scope="admin:calls"
      onEnter={() => echo(span)}
      actions={
        <Segment
          label="Time"
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
    <Found query={usage} what="The usage">
      {({ callers, whole }) =>
        callers.length === 0 ? (
          <Empty title="No calls in this period">Callers appear here with their first call.</Empty>
        ) : (
          <>
            <Table caption="Usage by caller" columns={COLUMNS} className="use">
              <tbody>
                {callers.map((caller) => (
                  <CallerRow key={caller.key} caller={caller} span={span} />
                ))}
              </tbody>
            </Table>
            {!whole && <p className="meta dim after-table">Not all calls were counted.</p>}
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
        {tenant !== 'default' && <span className="dim"> tenant {tenant}</span>}
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
          <Link to="/calls" search={{ q: `principal:${principal} status:rejected since:${span}` }}>
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
