import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { type CheckProgress, type JournalCheck, journalQuery, verifyJournal } from '../../api/journal.ts'
import { serverQuery } from '../../api/server.ts'
import { announce } from '../../app/announcer.tsx'
import { Section } from '../../app/page.tsx'
import { Button, CopyButton } from '../../parts/button.tsx'
import { countOf, formatClock, formatCount, formatDuration, shortHash } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Found, messageOf, Work } from '../../parts/states.tsx'

/*
 * Verifies the journal of the running server, and shows the heads of its chains. Used by `page.tsx`.
 */

export function Verification({ onCommand }: { readonly onCommand: (command: string) => void }): ReactNode {
  const check = useCheck()
  return (
    <Section
      id="journal"
      title="Verification"
      scope="audit:read"
      isOfServer
      onEnter={() => onCommand('collet journal verify')}
      actions={
        <Button isSmall isBusy={check.progress !== undefined} writes onClick={() => void check.start()}>
          Verify now
        </Button>
      }
    >
      {check.progress !== undefined && (
        <Work
          title="Checking the journal"
          done={check.progress.checked}
          total={check.progress.groups}
          onStop={check.stop}
        />
      )}
      {check.failure !== undefined && <Note tone="failed">{check.failure}</Note>}
      <LastCheck />
    </Section>
  )
}

interface Check {
  readonly progress: CheckProgress | undefined
  readonly failure: string | undefined
  start(): Promise<void>
  stop(): void
}

function useCheck(): Check {
  const client = useQueryClient()
  const [progress, setProgress] = useState<CheckProgress>()
  const [failure, setFailure] = useState<string>()
  const end = useRef<AbortController>(undefined)
  useEffect(() => () => end.current?.abort(), [])
  return {
    progress,
    failure,
    stop: () => end.current?.abort(),
    async start() {
      const stopped = new AbortController()
      end.current = stopped
      setFailure(undefined)
      setProgress({ checked: 0, groups: 0 })
      try {
        const { ok } = await verifyJournal(setProgress, stopped.signal)
        announce(ok ? 'The journal is intact.' : 'The journal is not intact.')
      } catch (error) {
        setFailure(stopped.signal.aborted ? 'Stopped. The rest was not checked.' : messageOf(error))
      } finally {
        setProgress(undefined)
        await client.invalidateQueries({ queryKey: journalQuery.queryKey })
      }
    },
  }
}

function LastCheck(): ReactNode {
  const journal = useQuery(journalQuery)
  const { data: server } = useQuery(serverQuery())
  return (
    <Found query={journal} what="The journal">
      {({ last, chains }) => (
        <div className="card jr">
          {last === null ? (
            <p className="row">
              <Icon name="ring" className="is-quiet" />
              <span className="strong">Not verified since the server started</span>
            </p>
          ) : (
            <Verdict check={last} />
          )}
          <dl className="kv">
            {last !== null && <Heads check={last} />}
            {server !== undefined && (
              <>
                <dt>Retention</dt>
                <dd>
                  {countOf(server.kept.journal_days, 'day')}; results{' '}
                  {countOf(server.kept.result_hours, 'hour')}
                </dd>
                <dt>Store</dt>
                <dd>
                  {server.store}, {countOf(chains, 'chain')}
                </dd>
              </>
            )}
          </dl>
          {last !== null && <CheckLimits check={last} />}
        </div>
      )}
    </Found>
  )
}

function Verdict({ check }: { readonly check: JournalCheck }): ReactNode {
  const { ok, events, groups, first_bad, bad_rows, at, took_ms } = check
  return (
    <>
      <p className="row">
        <Icon name={ok ? 'succeeded' : 'failed'} className={ok ? 'is-succeeded' : 'is-failed'} />
        <span className="strong">{ok ? `Unbroken, ${countOf(events, 'event')}` : 'Not intact'}</span>
        <span className="grow" />
        <span className="dim num">
          {formatClock(at)}, took {formatDuration(took_ms)}
        </span>
      </p>
      {!ok && (
        <ul className="meta is-failed">
          {first_bad !== null && (
            <li>
              Group {formatCount(first_bad.group)} of {formatCount(groups)}, writer{' '}
              <code>{shortHash(first_bad.writer)}</code>: {first_bad.reason}.
            </li>
          )}
          {bad_rows.map(({ row, reason }) => (
            <li key={row}>
              {row} {reason}.
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

/** The heads of the chains. Saved elsewhere, they later prove that nothing was removed from the end. */
function Heads({ check: { heads } }: { readonly check: JournalCheck }): ReactNode {
  const text = heads.map(({ writer, group, link }) => `${writer}:${group}:${link}`).join('\n')
  const [first] = heads
  if (first === undefined) return null
  return (
    <>
      <dt>{heads.length === 1 ? 'Head' : 'Heads'}</dt>
      <dd className="row">
        <span className="mono clip grow" title={text}>
          {shortHash(first.link)}
          {heads.length > 1 && ` and ${heads.length - 1} more`}
        </span>
        <CopyButton text={text} label="Copy journal heads" />
      </dd>
    </>
  )
}

function CheckLimits({ check: { cannot_see } }: { readonly check: JournalCheck }): ReactNode {
  return (
    <details className="meta dim">
      <summary>Limits of this check</summary>
      <ul className="plain-list">
        {cannot_see.map((limit) => (
          <li key={limit}>{limit}</li>
        ))}
      </ul>
    </details>
  )
}
