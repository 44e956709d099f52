import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { causeOf, formatClock, formatCount } from '../../parts/format.ts'
import { ToolName } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type RejectedRow, rejectedQuery } from './api.ts'
import type { Filters } from './query.ts'

/*
 * The list of rejected requests, which are counted and not recorded as calls. `page.tsx` and `tally.tsx` use it.
 */

const COLUMNS: readonly Column[] = [
  { title: 'Last', className: 'c-last' },
  { title: 'Requests', className: 'c-requests', isEnd: true },
  { title: 'Cause', className: 'c-cause' },
  { title: 'Tool' },
  { title: 'Principal' },
  { title: 'Message', className: 'c-message' },
]

/** `status:rejected`: one row per minute, caller, tool and cause, with the message that the last request got. */
export function RejectedList({ filters, isLive }: RejectedListProps): ReactNode {
  const { data, error, refetch } = useQuery(rejectedQuery(filters, isLive))
  if (error !== null && data === undefined)
    return (
      <Failed
        what="Rejected requests could not be read"
        error={error}
        safe="Calls already recorded are safe."
        onRetry={() => void refetch()}
      />
    )
  if (data === undefined) return <Loading what="rejected requests" rows={6} />
  if (data.length === 0)
    return <Empty title="No rejected requests">No request was rejected in this period.</Empty>
  return (
    <Table caption="Rejected requests, newest first" columns={COLUMNS} className="rejected">
      <tbody>
        {data.map((row) => (
          <Row key={row.no} row={row} />
        ))}
      </tbody>
    </Table>
  )
}

interface RejectedListProps {
  readonly filters: Filters
  readonly isLive: boolean
}

function Row({
  row: { last_at: at, requests, code, tool, principal, message },
}: {
  readonly row: RejectedRow
}): ReactNode {
  return (
    <tr>
      <td className="num">
        <time dateTime={at}>{formatClock(at)}</time>
      </td>
      <td className="num end">{formatCount(requests)}</td>
      <td>{causeOf(code)}</td>
      <td>
        {tool === null ? <span className="dim">not visible to the caller</span> : <ToolName name={tool} />}
      </td>
      <td>
        <code>{visibleText(principal)}</code>
      </td>
      <td dir="auto">{visibleText(message)}</td>
    </tr>
  )
}
