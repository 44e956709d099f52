import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { saveReceipt } from '../../api/save-file.ts'
import { holdsScope, holdsServerScope, useSession } from '../../api/session.ts'
import { announce } from '../../app/announcer.tsx'
import { useAction } from '../../parts/action.ts'
import { Button, CopyButton, IconButton } from '../../parts/button.tsx'
import { Code } from '../../parts/code.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { JournalFilters, ListedEvent } from './journal-data.ts'
import { actorOf, sentenceOf, words } from './words.ts'

/*
 * One event of the journal: its sentence, links to what it is about, its place in the chain, and the event as it was recorded.
 * `journal.tsx` uses it.
 */

interface EventDetailProps {
  readonly event: ListedEvent
  readonly onClose: () => void
  readonly onFilter: (patch: Partial<JournalFilters>) => void
}

/** The event that is open beside the list. */
export function EventDetail({ event, onClose, onFilter }: EventDetailProps): ReactNode {
  const { at, who, tenant, principal, why, writer, group, link, facts } = event
  return (
    <aside className="event-detail" aria-label={words.event}>
      <header className="row">
        <h2 className="grow">
          <Sentence event={event} />
        </h2>
        <IconButton icon="close" label={words.closeEvent} onClick={onClose} />
      </header>
      {why !== null && (
        <blockquote dir="auto">
          <span className="meta dim">{words.reason}</span>
          <p>{visibleText(why)}</p>
        </blockquote>
      )}
      <Links event={event} />
      <dl className="kv">
        <dt>{words.when}</dt>
        <dd>
          <time dateTime={at}>{formatClock(at, { withMs: true })}</time>
        </dd>
        <dt>{words.who}</dt>
        <dd>
          {who === null ? (
            words.server
          ) : (
            <button
              type="button"
              className="plain link"
              title={words.onlyOf(actorOf(event))}
              onClick={() => onFilter({ person: who })}
            >
              {visibleText(actorOf(event))}
            </button>
          )}
        </dd>
        {principal !== null && (
          <>
            <dt>{words.principal}</dt>
            <dd>
              <button
                type="button"
                className="plain link"
                title={words.onlyOf(principal)}
                onClick={() => onFilter({ person: principal })}
              >
                {visibleText(principal)}
              </button>
            </dd>
          </>
        )}
        {tenant !== null && (
          <>
            <dt>{words.tenant}</dt>
            <dd>{visibleText(tenant)}</dd>
          </>
        )}
        <dt>{words.place}</dt>
        <dd title={`${writer}:${group}`}>{words.placeOf(writer, group)}</dd>
        <dt>{words.link}</dt>
        <dd className="row">
          <span className="mono clip grow">{link}</span>
          <CopyButton text={`${writer}:${group}:${link}`} label="Copy link of the chain" />
        </dd>
      </dl>
      <Code
        label={words.raw}
        isJson
        text={JSON.stringify(
          {
            type: event.type,
            at,
            record: event.record ?? undefined,
            approval: event.approval ?? undefined,
            tenant: tenant ?? undefined,
            ...facts,
          },
          null,
          2,
        )}
      />
    </aside>
  )
}

/** Links to the call, the approval, the tool, the source or the key, for people who may see them. */
function Links({ event: { record, approval, object } }: { readonly event: ListedEvent }): ReactNode {
  const principal = useSession()?.principal
  const seesCalls = holdsScope(principal, 'admin:calls')
  const seesApprovals = holdsScope(principal, 'approvals:read') || holdsScope(principal, 'approvals:respond')
  return (
    <p className="row event-links">
      {record !== null && seesCalls && (
        <Link className="btn sm" to="/calls/$record" params={{ record }}>
          {words.showCall}
        </Link>
      )}
      {approval !== null && seesApprovals && (
        <Link className="btn sm" to="/approvals/$id" params={{ id: approval }}>
          {words.showApproval}
        </Link>
      )}
      {object?.kind === 'tool' && (
        <Link className="btn sm" to="/tools/$id" params={{ id: object.id }}>
          {words.showTool}
        </Link>
      )}
      {object?.kind === 'source' && holdsServerScope(principal, 'admin:sources') && (
        <Link className="btn sm" to="/sources">
          {words.showSource}
        </Link>
      )}
      {object?.kind === 'key' && holdsScope(principal, 'admin:keys') && (
        <Link className="btn sm" to="/access">
          {words.showKey}
        </Link>
      )}
      {record !== null && <Receipt record={record} />}
    </p>
  )
}

function Receipt({ record }: { readonly record: string }): ReactNode {
  const { isBusy, failure, run } = useAction(async () =>
    announce(words.saved(await saveReceipt(record, false))),
  )
  return (
    <>
      <Button isSmall writes isBusy={isBusy} title={words.receiptHint} onClick={run}>
        {words.receipt}
      </Button>
      {failure !== undefined && <Note tone="failed">{failure}</Note>}
    </>
  )
}

/** The sentence of an event, with its names set apart. */
export function Sentence({ event }: { readonly event: ListedEvent }): ReactNode {
  return (
    <span>
      {sentenceOf(event).map((part, index) =>
        typeof part === 'string' ? (
          part
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence keep their order.
          <b key={index}>{visibleText(part.name)}</b>
        ),
      )}
    </span>
  )
}
