import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef } from 'react'
import { useSession } from '../../api/session.ts'
import { announce } from '../../app/announcer.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Tag, Tier, ToolName } from '../../parts/meaning.tsx'
import { useListKeys } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { Approval } from './approval-data.ts'
import { Outcome } from './approval-screen.tsx'
import { leftOf, useNow } from './time-left.ts'
import { WORDS } from './words.tsx'

/*
 * The list of waiting and decided approvals. Used by `page.tsx`. It is one tab stop with arrows inside.
 */

interface InboxProps {
  readonly current: string | undefined
  readonly waiting: readonly Approval[]
  readonly decided: readonly Approval[]
  readonly isDecidedOnly: boolean
  /** How many waiting approvals this view leaves out. */
  readonly elsewhere: number
}

/** Waiting approvals, newest first, and below them the decided ones. */
export function Inbox({ current, waiting, decided, isDecidedOnly, elsewhere }: InboxProps): ReactNode {
  const keys = useListKeys({ length: waiting.length + decided.length })
  useArrivals(waiting)
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the arrows move between the links inside.
    <div onKeyDown={keys.onKeyDown}>
      {!isDecidedOnly && (
        <>
          <h2 className="group">{WORDS.waiting}</h2>
          {waiting.length === 0 && (
            <p className="group soft">
              {WORDS.nothing(elsewhere === 0 ? '.' : WORDS.youMayDecideUnderAll(countOf(elsewhere, 'other')))}
            </p>
          )}
          <ul>
            {waiting.map((approval, index) => (
              <li key={approval.id}>
                <ItemLink approval={approval} isCurrent={approval.id === current} {...keys.rowProps(index)}>
                  <Waiting approval={approval} />
                </ItemLink>
              </li>
            ))}
          </ul>
        </>
      )}
      <h2 className="group">{WORDS.decided}</h2>
      {decided.length === 0 && <p className="group soft">{WORDS.nothingYet}</p>}
      <ul>
        {decided.map((approval, index) => (
          <li key={approval.id}>
            <ItemLink
              approval={approval}
              isCurrent={approval.id === current}
              {...keys.rowProps(waiting.length + index)}
            >
              <Past approval={approval} />
            </ItemLink>
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Announces approvals that arrived after the page was opened. */
function useArrivals(waiting: readonly Approval[]): void {
  const known = useRef<ReadonlySet<string> | undefined>(undefined)
  useEffect(() => {
    const before = known.current
    known.current = new Set(waiting.map(({ id }) => id))
    const count = waiting.filter(({ id }) => before?.has(id) === false).length
    if (count > 0) announce(WORDS.moreWaitingForApproval(countOf(count, 'call')))
  }, [waiting])
}

interface ItemProps extends ReturnType<ReturnType<typeof useListKeys>['rowProps']> {
  readonly approval: Approval
  readonly isCurrent: boolean
  readonly children: ReactNode
}

function ItemLink({ approval, isCurrent, children, ...row }: ItemProps): ReactNode {
  return (
    <Link
      {...row}
      className={approval.state === 'pending' ? 'inbox-item' : 'inbox-item past'}
      to="/approvals/$id"
      params={{ id: approval.id }}
      search={true}
      aria-current={isCurrent ? 'true' : undefined}
      activeProps={{}}
    >
      {children}
    </Link>
  )
}

function Waiting({ approval }: { readonly approval: Approval }): ReactNode {
  const { tool, safety_tier: tier, principal, quorum, decisions, stale } = approval
  return (
    <>
      <span className="row">
        <span className="clip grow">
          <ToolName name={tool} />
        </span>
        <Tier tier={tier} />
      </span>
      <span className="what clip mono">{summaryLine(approval.summary)}</span>
      <span className="row meta dim">
        <span className="mono clip grow">{visibleText(principal)}</span>
        <TenantTag tenant={approval.tenant} />
        {stale && <Tag tone="parked">{WORDS.toolChanged}</Tag>}
        {quorum > 1 && <Tag>{WORDS.of(decisions.length, quorum)}</Tag>}
        <TimeLeft expiresAt={approval.expires_at} />
      </span>
    </>
  )
}

/** The tenant of a call, shown to operators; other people see only one tenant. */
function TenantTag({ tenant }: { readonly tenant: string }): ReactNode {
  if (useSession()?.principal?.isOperator !== true) return null
  return (
    <Tag>
      <span className="vh">{WORDS.tenant} </span>
      {visibleText(tenant)}
    </Tag>
  )
}

function TimeLeft({ expiresAt }: { readonly expiresAt: string }): ReactNode {
  const left = leftOf(expiresAt, useNow(10_000))
  return (
    <span className={left.isShort ? 'row nowrap is-parked' : 'row nowrap'}>
      <Icon name="clock" size={12} />
      <span className="num">{left.isOver ? 'expired' : `${left.rough} left`}</span>
    </span>
  )
}

function Past({ approval }: { readonly approval: Approval }): ReactNode {
  const { tool, decisions, decided_at: decidedAt, expires_at: expiresAt } = approval
  const last = decisions.at(-1)
  const said = last?.reason == null ? (last?.by ?? '') : `${last.by}: ${last.reason}`
  return (
    <>
      <span className="row">
        <span className="clip grow">
          <ToolName name={tool} />
        </span>
        <Outcome approval={approval} />
      </span>
      <span className="row meta dim">
        <span className="grow clip" dir="auto">
          {visibleText(said === '' ? WORDS.notDecided : said)}
        </span>
        <TenantTag tenant={approval.tenant} />
        <span className="num nowrap">{formatClock(decidedAt ?? expiresAt)}</span>
      </span>
    </>
  )
}

/** The first values of an input in one line. */
function summaryLine(summary: unknown): string {
  const values = typeof summary === 'object' && summary !== null ? Object.values(summary) : [summary]
  const words = values.map((value) => {
    if (Array.isArray(value)) return value.map((part) => wordOf(part)).join(' ')
    return wordOf(value)
  })
  return visibleText(words.join('  ')).replaceAll('\n', ' ').slice(0, 200) || WORDS.noArguments
}

function wordOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}
