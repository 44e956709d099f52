import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Command } from '../../app/page-command.tsx'
import { Button } from '../../parts/button.tsx'
import { Code, toJson } from '../../parts/code.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { ContentBlocks, contentOf } from '../../parts/values/content-blocks.tsx'
import { isLongJson } from '../../parts/values/json-rows.ts'
import { JsonTree } from '../../parts/values/json-tree.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type CallDetails, type CallOutcome, contentsQuery, type JournalRow } from './api.ts'
import { words } from './words.ts'

/*
 * The input and outcome of a call, shown on request, and its journal events. Used by `call-page.tsx` and `detail.tsx`.
 */

/** The input and outcome of a call, shown on request to people with the scope calls:read. */
export function Contents({ call }: { readonly call: CallDetails }): ReactNode {
  const query = useQuery(contentsQuery(call.record))
  if (call.contents === 'hidden')
    return <Note icon="lock">Input and outcome need the scope calls:read. Ask an operator.</Note>
  if (call.contents === 'gone')
    return <Note icon="clock">Input and outcome are no longer kept (calls.retentionHours).</Note>
  if (query.data === undefined)
    return (
      <div className="stack-3">
        <Note
          icon="eye"
          action={
            <Button isSmall writes isBusy={query.isFetching} onClick={() => void query.refetch()}>
              {words.showContents}
            </Button>
          }
        >
          Viewing is recorded in the journal with your name.
        </Note>
        {query.error !== null && <Note tone="failed">{messageOf(query.error)}</Note>}
      </div>
    )
  const { input, outcome, late_outcome: late, contents, log = [] } = query.data
  if (contents !== 'shown') return <Note icon="clock">Input and outcome are no longer kept.</Note>
  return (
    <div className="stack-3">
      <Json label="Input" value={input} />
      {outcome === undefined ? (
        <p className="soft">There is no outcome yet.</p>
      ) : (
        <Outcome outcome={outcome} label="Output" />
      )}
      {late !== undefined && <Outcome outcome={late} label="Late output, ignored" />}
      {log.length > 0 && <Log lines={log} />}
    </div>
  )
}

/** Longer values are shown as a folding tree. */
const MAX_CODE = 4_000

function Json({ label, value }: { readonly label: string; readonly value: unknown }): ReactNode {
  if (isLongJson(value, MAX_CODE)) return <JsonTree label={label} value={value} />
  return <Code label={label} text={toJson(value)} isJson />
}

/** The lines that the tool logged. */
function Log({ lines }: { readonly lines: NonNullable<CallDetails['log']> }): ReactNode {
  return (
    <section aria-label={words.log} className="call-log">
      <h3>{words.log}</h3>
      <ol>
        {lines.map(({ at, level, text }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines keep their order.
          <li key={index} className={`is-${level}`}>
            <time dateTime={at} className="num dim">
              {formatClock(at, { withMs: true })}
            </time>
            <span className="level">{level}</span>
            <pre dir="auto">{visibleText(text)}</pre>
          </li>
        ))}
      </ol>
    </section>
  )
}

function Outcome({ outcome, label }: { readonly outcome: CallOutcome; readonly label: string }): ReactNode {
  if (outcome.ok) {
    const blocks = contentOf(outcome.value)?.filter(({ type }) => type === 'image')
    return (
      <>
        {blocks !== undefined && blocks.length > 0 && <ContentBlocks blocks={blocks} />}
        <Json label={label} value={outcome.value} />
      </>
    )
  }
  return (
    <>
      <Note tone="failed">{visibleText(outcome.error.message)}</Note>
      <Code label="Error" text={toJson(outcome.error)} isJson />
    </>
  )
}

/** The journal events of a call. */
export function JournalRows({ rows }: { readonly rows: readonly JournalRow[] }): ReactNode {
  if (rows.length === 0) return <p className="soft pad">The commits of this call are no longer kept.</p>
  return (
    <div className="stack-3">
      <Table
        caption="Commits of this call"
        className="journal-rows"
        columns={[{ title: 'Commit', className: 'c-commit' }, { title: 'Event' }]}
      >
        <tbody>
          {rows.flatMap(({ writer, group, link, events }) =>
            events.map((event, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: events of a commit keep their order.
              <tr key={`${writer} ${group} ${index}`}>
                <td className="mono dim" title={`Writer ${writer}, commit ${group}, link ${link}`}>
                  {writer.slice(0, 8)}:{group}
                </td>
                <th scope="row">
                  <code>{event.type}</code>
                  <span className="desc">{factsOf(event)}</span>
                </th>
              </tr>
            )),
          )}
        </tbody>
      </Table>
      <p className="meta dim pad">
        Commits of the call and its run. <Command text="collet journal" /> prints the whole journal.
      </p>
    </div>
  )
}

/** Members that the page shows elsewhere. */
const SHOWN_ELSEWHERE: ReadonlySet<string> = new Set(['type', 'at', 'record', 'tenant', 'principal', 'tool'])

function factsOf(event: JournalRow['events'][number]): string {
  return Object.entries(event)
    .filter(([name]) => !SHOWN_ELSEWHERE.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
}
