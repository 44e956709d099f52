import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useCallback, useState } from 'react'
import { ApiError } from '../../api/client.ts'
import { Differences } from '../../parts/differences.tsx'
import { formatClock, shortHash } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note, Tag, Tier, ToolName } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { approvalQuery, type WholeApproval } from './approval-data.ts'
import { Arguments } from './arguments.tsx'
import { DecideBar } from './decide-bar.tsx'
import { Outcome } from './inbox.tsx'
import { leftOf, useNow, useSpokenTime } from './time-left.ts'

/** One question, in the order in which a person weighs it: what exactly, why, who, with what; the buttons last. */
export function Decision({ id }: { readonly id: string }): ReactNode {
  const found = useQuery(approvalQuery(id))
  const [isSeen, setSeen] = useState(false)
  const onSeen = useCallback(() => setSeen(true), [])
  if (found.data === undefined)
    return (
      <section className="decide" aria-label="Decision">
        {found.error === null ? (
          <Loading what="the approval" />
        ) : found.error instanceof ApiError && found.error.status === 404 ? (
          <Empty title="There is no such approval" actions={<Back />}>
            It may be of another tenant, or too old to be kept.
          </Empty>
        ) : (
          <Failed
            what="The approval could not be read"
            error={found.error}
            safe="Nothing was decided."
            onRetry={() => void found.refetch()}
          />
        )}
      </section>
    )
  const approval = found.data
  return (
    <section className="decide" aria-labelledby="dec-h">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard. */}
      <div className="decide-body" tabIndex={0} role="group" aria-labelledby="dec-h">
        <Head approval={approval} />
        {approval.input === undefined ? (
          <Note icon="lock">
            The arguments are shown to people with the scope approvals:respond. With calls:read you can see
            them on the page of the call, which records that you looked.
          </Note>
        ) : (
          <Arguments approval={approval} onSeen={onSeen} />
        )}
        <Facts approval={approval} />
        <Changed approval={approval} />
        <Words approval={approval} />
      </div>
      <DecideBar approval={approval} isSeen={isSeen} />
    </section>
  )
}

function Back(): ReactNode {
  return (
    <Link className="btn sm" to="/approvals" search={true}>
      All approvals
    </Link>
  )
}

function Head({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const { tool, safety_tier: tier, principal, user_id: user, state } = approval
  const [, version] = /@([^@]*)$/.exec(tool) ?? []
  return (
    <header>
      <Link className="back row link" to="/approvals" search={true}>
        All approvals
      </Link>
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
        <b className="mono">{visibleText(principal)}</b> of the tenant <b>{visibleText(approval.tenant)}</b>{' '}
        asks to run this once
        {user === null ? '.' : ', for '}
        {user !== null && (
          <>
            <b>{visibleText(user)}</b>
            {approval.user_proven ? '.' : ' (the caller says so; it is not proven).'}
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
        {left.isOver ? (
          <b>Expired</b>
        ) : (
          <>
            Expires in <b>{left.exact}</b>
          </>
        )}
      </span>
    </span>
  )
}

const WHY = {
  always: 'Every call of this tool needs approval.',
  conditional: 'The conditions of the config ask for approval of this call.',
  never: 'Approval was asked for when the call was made.',
} as const

function Facts({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const { description, needed, quorum, decisions, credentials, stale, state } = approval
  return (
    <dl className="facts">
      {description !== null && (
        <div>
          <dt>What it does</dt>
          <dd>
            <bdi>{visibleText(description)}</bdi> <span className="dim">The tool's own words</span>
          </dd>
        </div>
      )}
      <div>
        <dt>Why it waits</dt>
        <dd>
          {needed === null ? 'Its tool needed approval when the call was made.' : WHY[needed]}
          {quorum > 1 &&
            ` ${quorum} people have to approve it; ${decisions.length} ${decisions.length === 1 ? 'has' : 'have'}.`}
          {approval.required_scope !== 'approvals:respond' && (
            <>
              {' '}
              Approvers need the scope <code>{approval.required_scope}</code>.
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>Credential</dt>
        <dd>
          {credentials.length === 0 ? (
            <span className="soft">None</span>
          ) : (
            <>
              {credentials.map(({ kind, id }, index) => (
                <span key={`${kind} ${id}`}>
                  {index > 0 && ', '}
                  <code>{visibleText(id)}</code>
                </span>
              ))}{' '}
              of the caller, bound to this approval
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>Definition</dt>
        <dd>
          <code title={approval.definition_hash}>sha256:{shortHash(approval.definition_hash)}</code>
          {stale ? (
            <span className="is-parked">, and the tool is another one now</span>
          ) : state === 'pending' ? (
            ', the one that is served now'
          ) : (
            ''
          )}
        </dd>
      </div>
      <div>
        <dt>Call</dt>
        <dd>
          <Link className="link mono" to="/calls/$record" params={{ record: approval.record }}>
            {approval.record}
          </Link>
          , asked at {formatClock(approval.created_at)}
          {approval.attempt > 1 && `, attempt ${approval.attempt}`}
        </dd>
      </div>
    </dl>
  )
}

function Changed({ approval: { stale, changes } }: { readonly approval: WholeApproval }): ReactNode {
  if (!stale) return null
  return (
    <section className="code changed" aria-label="What changed in the tool since">
      <div className="code-head">
        <Icon name="pin" size={14} />
        <span className="grow">Changed since this call was made, so that it can only be rejected</span>
      </div>
      {changes === null || changes.length === 0 ? (
        <p className="changed-none soft">
          {changes === null
            ? 'How the tool was then is not kept.'
            : 'What it says of itself is the same: its code is another.'}
        </p>
      ) : (
        <Differences differences={changes} />
      )}
    </section>
  )
}

/** Who has said what so far. */
function Words({ approval: { decisions } }: { readonly approval: WholeApproval }): ReactNode {
  if (decisions.length === 0) return null
  return (
    <section aria-labelledby="said-h">
      <h3 id="said-h">Decisions</h3>
      <ul className="said">
        {decisions.map(({ by, action, reason, at }) => (
          <li key={`${by} ${at}`} className="row">
            <Tag tone={action === 'reject' ? 'failed' : undefined}>{SAID[action]}</Tag>
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

const SAID = { grant: 'approved', override: 'overridden', reject: 'rejected' } as const
