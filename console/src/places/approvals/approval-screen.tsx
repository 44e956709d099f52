import { type ReactNode, useCallback, useState } from 'react'
import { Differences } from '../../parts/differences.tsx'
import { formatClock, formatExact, shortHash } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note, StateMark, type StateName, Tag, Tier, ToolName } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { Approval, WholeApproval } from './approval-data.ts'
import { Arguments } from './arguments.tsx'
import { leftOf, useNow, useSpokenTime } from './time-left.ts'
import { WORDS } from './words.tsx'

/*
 * The approval screen. It is used by the Approvals page and by the page that an approval link opens, which has no session and no
 * router. The screen therefore sends no requests and has no links.
 */

interface ApprovalScreenProps {
  readonly approval: WholeApproval
  /** Shown above the tool's name. */
  readonly back?: ReactNode
  /** The call's record, as a link where there is a page to open. */
  readonly call: ReactNode
  /** Renders the buttons. `isSeen`: all arguments were on screen, which approving requires. */
  readonly children: (isSeen: boolean) => ReactNode
}

/** Shows the tool and the caller first, then arguments, facts and changes, and the buttons last. */
export function ApprovalScreen({ approval, back, call, children }: ApprovalScreenProps): ReactNode {
  const [isSeen, setSeen] = useState(false)
  const onSeen = useCallback(() => setSeen(true), [])
  return (
    <section className="decide" aria-labelledby="dec-h">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard. */}
      <div className="decide-body" tabIndex={0} role="group" aria-labelledby="dec-h">
        <Head approval={approval} back={back} />
        {approval.input === undefined ? (
          <Note icon="lock">{WORDS.argumentsAreShownPeopleWith}</Note>
        ) : (
          <Arguments approval={approval} onSeen={onSeen} />
        )}
        <Facts approval={approval} call={call} />
        <Changed approval={approval} />
        <Decisions approval={approval} />
      </div>
      {children(isSeen)}
    </section>
  )
}

function Head({ approval, back }: { readonly approval: WholeApproval; readonly back: ReactNode }): ReactNode {
  const { tool, safety_tier: tier, principal, user_id: user, state } = approval
  const [, version] = /@([^@]*)$/.exec(tool) ?? []
  return (
    <header>
      {back}
      <div className="row">
        <h2 id="dec-h">
          <ToolName name={tool} />
        </h2>
        <span className="mono dim">{version}</span>
        <Tier tier={tier} isChip />
        <span className="grow" />
        {state === 'pending' ? <Expiry expiresAt={approval.expires_at} /> : <Outcome approval={approval} />}
      </div>
      <p className="lead">
        {WORDS.tenantAsksRunThisOnce(
          <b className="mono">{visibleText(principal)}</b>,
          <b>{visibleText(approval.tenant)}</b>,
          user === null ? '.' : WORDS.forWord,
        )}
        {user !== null && (
          <>
            <b>{visibleText(user)}</b>
            {approval.user_proven ? '.' : WORDS.claimedByCallerNotProven}
          </>
        )}
      </p>
    </header>
  )
}

function Expiry({ expiresAt }: { readonly expiresAt: string }): ReactNode {
  const left = leftOf(expiresAt, useNow(1000))
  useSpokenTime(left)
  return (
    <span className={left.isShort ? 'row expiry is-parked' : 'row expiry'}>
      <Icon name="clock" size={14} />
      <span className="num">
        {left.isOver ? <b>{WORDS.expired}</b> : WORDS.expiresIn(<b>{left.exact}</b>)}
      </span>
    </span>
  )
}

const REASONS = {
  always: WORDS.everyCallThisToolNeeds,
  conditional: WORDS.approvalRuleInConfigApplies,
  never: WORDS.approvalWasRequiredWhenCall,
} as const

function Facts({
  approval,
  call,
}: {
  readonly approval: WholeApproval
  readonly call: ReactNode
}): ReactNode {
  const { description, needed, quorum, decisions, credentials, stale, state } = approval
  const expires = formatExact(approval.expires_at)
  return (
    <dl className="facts">
      {description !== null && (
        <Fact name="Description">
          <bdi>{visibleText(description)}</bdi> <span className="dim">{WORDS.byToolsAuthor}</span>
        </Fact>
      )}
      <Fact name="Approval rule">
        {needed === null ? WORDS.toolNeededApprovalWhenCall : REASONS[needed]}
        {quorum > 1 &&
          WORDS.peopleMustApprove(quorum, decisions.length, decisions.length === 1 ? 'has' : 'have')}
        {approval.required_scope !== 'approvals:respond' &&
          WORDS.approversNeedScope(<code>{approval.required_scope}</code>)}
      </Fact>
      <Fact name="Credentials">
        {credentials.length === 0 ? (
          <span className="soft">{WORDS.none}</span>
        ) : (
          WORDS.callerBoundThisApproval(
            credentials.map(({ kind, id }, index) => (
              <span key={`${kind} ${id}`}>
                {index > 0 && ', '}
                <code>{visibleText(id)}</code>
              </span>
            )),
          )
        )}
      </Fact>
      <Fact name="Definition">
        <code title={approval.definition_hash}>sha256:{shortHash(approval.definition_hash)}</code>
        {stale ? (
          <span className="is-parked">{WORDS.toolHasChangedSince}</span>
        ) : state === 'pending' ? (
          WORDS.currentlyServed
        ) : (
          ''
        )}
      </Fact>
      <Fact name="Input hash">
        <code title={approval.args_hash}>{shortHash(approval.args_hash)}</code>
      </Fact>
      <Fact name="Call">
        {WORDS.requestedAt(call, formatClock(approval.created_at))}
        {approval.attempt > 1 && WORDS.attempt(approval.attempt)}
      </Fact>
      {state === 'pending' && <Fact name="Expires">{expires}</Fact>}
    </dl>
  )
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Changed({ approval: { stale, changes } }: { readonly approval: WholeApproval }): ReactNode {
  if (!stale) return null
  return (
    <section className="code changed" aria-label={WORDS.changesToolSinceCall}>
      <div className="code-head">
        <Icon name="pin" size={14} />
        <span className="grow">{WORDS.toolChangedAfterThisCall}</span>
      </div>
      {changes === null || changes.length === 0 ? (
        <p className="changed-none soft">
          {changes === null ? WORDS.earlierDefinitionWasNotKept : WORDS.definitionUnchangedCodeDifferent}
        </p>
      ) : (
        <Differences differences={changes} />
      )}
    </section>
  )
}

function Decisions({ approval: { decisions } }: { readonly approval: WholeApproval }): ReactNode {
  if (decisions.length === 0) return null
  return (
    <section aria-labelledby="decisions-h">
      <h3 id="decisions-h">{WORDS.decisions}</h3>
      <ul className="said">
        {decisions.map(({ by, action, reason, at }) => (
          <li key={`${by} ${at}`} className="row">
            <Tag tone={action === 'reject' ? 'failed' : undefined}>{ACTIONS[action]}</Tag>
            <span className="grow">
              <b className="mono">{visibleText(by)}</b>
              {reason !== null && `: ${visibleText(reason)}`}
            </span>
            <span className="num dim nowrap">{formatClock(at)}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

const ACTIONS = { grant: 'approved', override: 'overridden', reject: 'rejected' } as const

/** The state of an approval, as an icon and a word. */
export function Outcome({ approval }: { readonly approval: Pick<Approval, 'state'> }): ReactNode {
  const { state, label } = ENDS[approval.state]
  return <StateMark state={state} label={label} isCalm />
}

const ENDS = {
  pending: { state: 'parked', label: 'waiting' },
  granted: { state: 'succeeded', label: 'approved' },
  used: { state: 'succeeded', label: 'approved' },
  rejected: { state: 'rejected', label: 'rejected' },
  expired: { state: 'expired', label: 'expired' },
  cancelled: { state: 'expired', label: 'cancelled' },
} as const satisfies Readonly<Record<Approval['state'], { state: StateName; label: string }>>
