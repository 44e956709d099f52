import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { CallErrors, ErrorGroup } from '../../../../src/admin-api/call-views.ts'
import { requestJson } from '../../api/client.ts'
import { causeOf, countOf, formatClock, formatCount } from '../../parts/format.ts'
import { Note, ToolName } from '../../parts/meaning.tsx'
import { Bars } from '../../parts/plot.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type Filters, paramsOf, REJECTED, tokenText } from './query.ts'
import { words } from './words.ts'

/*
 * Errors by cause: failed calls and rejected requests, grouped by tool, code and message. `page.tsx` uses it. Each group links to
 * its calls.
 */

const REFRESH_MS = 15_000

const COLUMNS: readonly Column[] = [
  { title: words.count, className: 'c-count', isEnd: true },
  { title: words.cause },
  { title: words.tool, className: 'c-tool' },
  { title: words.overTime, className: 'c-spark' },
  { title: words.callers, className: 'c-callers', isEnd: true },
  { title: words.firstSeen, className: 'c-seen' },
  { title: words.lastSeen, className: 'c-seen' },
]

export function ErrorGroups({ filters, isLive }: ErrorGroupsProps): ReactNode {
  const { state: _state, slow: _slow, quick: _quick, ...query } = filters
  const { data, error, refetch } = useQuery({
    queryKey: ['calls', 'errors', query],
    queryFn: ({ signal }) => requestJson<CallErrors>(`/admin/calls/errors?${paramsOf(query)}`, { signal }),
    placeholderData: keepPreviousData,
    refetchInterval: isLive ? REFRESH_MS : false,
  })
  if (error !== null && data === undefined)
    return <Failed what={words.errorsUnread} error={error} onRetry={() => void refetch()} />
  if (data === undefined) return <Loading what={words.errors.toLowerCase()} rows={6} />
  if (data.errors.length === 0) return <Empty title={words.noErrors}>{words.noErrorsWhy}</Empty>
  return (
    <>
      {!data.whole && <Note>{words.olderNotCounted}</Note>}
      <Table caption={words.errorsCaption} columns={COLUMNS} className="errors">
        <tbody>
          {data.errors.map((group) => (
            <Row
              key={`${group.kind} ${group.tool} ${group.code} ${group.message}`}
              group={group}
              filters={query}
            />
          ))}
        </tbody>
      </Table>
    </>
  )
}

interface ErrorGroupsProps {
  readonly filters: Filters
  readonly isLive: boolean
}

function Row({ group, filters }: { readonly group: ErrorGroup; readonly filters: Filters }): ReactNode {
  const { kind, tool, code, message, example, count, principals, first_at: first, last_at: last } = group
  return (
    <tr>
      <td className="num end">
        <b>{formatCount(count)}</b>
      </td>
      <th scope="row">
        <Link
          to="/calls"
          search={(before: Record<string, unknown>) => searchOf(group, filters, before)}
          title={visibleText(example)}
        >
          <span className="error-message" dir="auto">
            {visibleText(message)}
          </span>
        </Link>
        <span className="desc">
          {kind === REJECTED ? `${words.rejected}, ${causeOf(code)}` : <code>{code}</code>}
        </span>
      </th>
      <td>{tool === null ? <span className="dim">{words.unseenTool}</span> : <ToolName name={tool} />}</td>
      <td>
        <Bars
          bars={group.buckets.map((value, at) => ({ key: String(at), parts: [{ value, tone: 'bad' }] }))}
          summary={`${countOf(count, 'error')}, ${words.from(formatClock(first), formatClock(last))}`}
        />
      </td>
      <td className="num end">{formatCount(principals)}</td>
      <td className="num">
        <time dateTime={first}>{formatClock(first)}</time>
      </td>
      <td className="num">
        <time dateTime={last}>{formatClock(last)}</time>
      </td>
    </tr>
  )
}

/** The address of the calls of a group, within the filter and the range of the page. */
function searchOf(
  { kind, tool, code, message }: ErrorGroup,
  { tenant, principal }: Filters,
  before: Record<string, unknown>,
): Record<string, unknown> {
  const own =
    kind === REJECTED
      ? [`status:${REJECTED}`, tokenText('code', code)]
      : ['status:error', tokenText('code', code), tokenText('error', longestPart(message))]
  const q = [
    ...(tool === null ? [] : [tokenText('tool', tool)]),
    ...own,
    ...(tenant === undefined ? [] : [tokenText('tenant', tenant)]),
    ...(principal === undefined ? [] : [tokenText('principal', principal)]),
  ]
  return { ...before, q: q.join(' '), view: undefined, call: undefined }
}

/** A quote cannot stand inside a quoted word, so the longest part without one is searched. */
function longestPart(message: string): string {
  return message
    .split('"')
    .reduce((longest, part) => (part.length > longest.length ? part : longest), '')
    .trim()
}
