import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Section } from '../../app/page.tsx'
import { Command } from '../../app/page-command.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Empty, Found } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { type Refusal, refusalsQuery } from './audit-data.ts'

/*
 * The requests that the server denied. Used by `page.tsx`.
 */

interface SectionProps {
  readonly onCommand: (command: string) => void
}

const COLUMNS = [
  { title: 'When', className: 'c-when' },
  { title: 'Who', className: 'c-who' },
  { title: 'What' },
  { title: 'Why', className: 'c-why' },
  { title: 'Times', className: 'c-times', isEnd: true },
] as const

export function DeniedRequests({ onCommand }: SectionProps): ReactNode {
  return (
    <Section
      id="refusals"
      title="Denied requests"
      scope="audit:read"
      onEnter={() => onCommand('collet audit')}
    >
      <RefusalList />
    </Section>
  )
}

function RefusalList(): ReactNode {
  const found = useQuery(refusalsQuery)
  return (
    <Found query={found} what="The audit log">
      {({ refusals, isWhole }) =>
        refusals.length === 0 ? (
          <Empty title="No denied requests">
            Requests with an invalid credential, calls to forbidden tools, and denied approvals and admin
            requests appear here.
          </Empty>
        ) : (
          <>
            <Table caption="Denied requests" columns={COLUMNS} className="refusals">
              <tbody>
                {refusals.map((refusal) => (
                  <RefusalRow key={refusal.no} refusal={refusal} />
                ))}
              </tbody>
            </Table>
            <p className="meta dim after-table">
              The newest {countOf(refusals.length, 'denied request')}
              {isWhole ? (
                '.'
              ) : (
                <>
                  {' '}
                  in the first part of a long log. Run <Command text="collet audit" /> for the rest.
                </>
              )}
            </p>
          </>
        )
      }
    </Found>
  )
}

function RefusalRow({ refusal }: { readonly refusal: Refusal }): ReactNode {
  const { at, principal, principal_id, tenant, action, resource, reason, count } = refusal
  const who = (principal_id ?? principal).replace(/^key:/, '')
  return (
    <tr>
      <td className="num soft">{formatClock(at)}</td>
      <th scope="row" className="clip" title={`${who}, tenant ${tenant}`}>
        {who}
      </th>
      <td className="clip" title={resource}>
        {action} <code>{resource}</code>
      </td>
      <td data-l="why" className="soft">
        {reason}
      </td>
      <td data-l="times" className="num end soft">
        {count}
      </td>
    </tr>
  )
}
