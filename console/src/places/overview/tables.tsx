import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { TimeRange } from '../../parts/charts/time-range.ts'
import { causeOf, formatCount } from '../../parts/format.ts'
import { ToolName } from '../../parts/meaning.tsx'
import { Table } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { callsQuery, errorShare, type Overview, shownShare } from './overview-data.ts'
import { words } from './words.ts'

/*
 * The rankings of the overview: causes of rejected requests, failing tools, callers. `page.tsx` uses it. Each row links to its calls.
 */

interface Ranked {
  readonly range: TimeRange
}

export function Causes({
  rejections,
  range,
}: Ranked & { readonly rejections: Overview['rejections'] }): ReactNode {
  return (
    <Ranking id="causes" title={words.causes} empty={rejections.length === 0 ? words.noCauses : undefined}>
      <Table caption={words.causes} columns={[{ title: words.cause }, COUNT(words.requests)]}>
        <tbody>
          {rejections.map(({ code, requests }) => (
            <tr key={code}>
              <th scope="row">
                <Link className="link" to="/calls" search={callsQuery(range, 'status:rejected')}>
                  {causeOf(code)}
                </Link>
              </th>
              <Count name={words.requests} count={requests} />
            </tr>
          ))}
        </tbody>
      </Table>
    </Ranking>
  )
}

export function FailingTools({
  tools,
  range,
}: Ranked & { readonly tools: Overview['failing_tools'] }): ReactNode {
  return (
    <Ranking
      id="failing"
      title={words.failingTools}
      empty={tools.length === 0 ? words.noFailingTools : undefined}
    >
      <Table
        caption={words.failingTools}
        columns={[{ title: words.tool }, COUNT(words.calls), COUNT(words.errors), COUNT(words.errorRate)]}
      >
        <tbody>
          {tools.map(({ tool, calls, errors }) => (
            <tr key={tool}>
              <th scope="row" className="clip" title={visibleText(tool)}>
                <Link className="link" to="/tools/$id" params={{ id: tool }}>
                  <ToolName name={tool} />
                </Link>
              </th>
              <Count name={words.calls} count={calls} />
              <td data-l={words.errors} className="num end is-failed">
                <Link to="/calls" search={callsQuery(range, 'status:error', `tool:${tool}`)}>
                  {formatCount(errors)}
                </Link>
              </td>
              <td data-l={words.errorRate} className="num end soft">
                {shownShare(errorShare({ calls, errors }))} %
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Ranking>
  )
}

export function Callers({ callers, range }: Ranked & { readonly callers: Overview['callers'] }): ReactNode {
  return (
    <Ranking id="callers" title={words.callers} empty={callers.length === 0 ? words.noCallers : undefined}>
      <Table
        caption={words.callers}
        columns={[{ title: words.caller }, COUNT(words.calls), COUNT(words.errors), COUNT(words.rejected)]}
      >
        <tbody>
          {callers.map(({ tenant, principal, calls, errors, rejected }) => {
            const filters = [`principal:${principal}`, `tenant:${tenant}`]
            return (
              <tr key={JSON.stringify([tenant, principal])}>
                <th scope="row" className="clip" title={visibleText(principal)}>
                  <Link className="link" to="/calls" search={callsQuery(range, ...filters)}>
                    {visibleText(principal.replace(/^key:/, ''))}
                    {tenant !== 'default' && (
                      <span className="dim"> {words.wholeTenant(visibleText(tenant))}</span>
                    )}
                  </Link>
                </th>
                <Count name={words.calls} count={calls} />
                <FailedCount
                  name={words.errors}
                  count={errors}
                  search={callsQuery(range, ...filters, 'status:error')}
                />
                <FailedCount
                  name={words.rejected}
                  count={rejected}
                  search={callsQuery(range, ...filters, 'status:rejected')}
                />
              </tr>
            )
          })}
        </tbody>
      </Table>
    </Ranking>
  )
}

const COUNT = (title: string) => ({ title, className: 'c-count', isEnd: true })

interface RankingProps {
  readonly id: string
  readonly title: string
  /** Shown instead of an empty table. */
  readonly empty: string | undefined
  readonly children: ReactNode
}

function Ranking({ id, title, empty, children }: RankingProps): ReactNode {
  return (
    <section aria-labelledby={`${id}-h`}>
      <div className="sec-head">
        <h2 id={`${id}-h`}>{title}</h2>
      </div>
      {empty === undefined ? children : <p className="soft">{empty}</p>}
    </section>
  )
}

function Count({ name, count }: { readonly name: string; readonly count: number }): ReactNode {
  return (
    <td data-l={name} className="num end">
      {formatCount(count)}
    </td>
  )
}

interface FailedCountProps {
  readonly name: string
  readonly count: number
  readonly search: { readonly q: string }
}

function FailedCount({ name, count, search }: FailedCountProps): ReactNode {
  if (count === 0)
    return (
      <td data-l={name} className="num end soft">
        0
      </td>
    )
  return (
    <td data-l={name} className="num end is-failed">
      <Link to="/calls" search={search}>
        {formatCount(count)}
      </Link>
    </td>
  )
}
