import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { useTimeRange } from '../../app/time-range.ts'
import { RangePicker } from '../../parts/charts/range-picker.tsx'
import type { TimeRange } from '../../parts/charts/time-range.ts'
import { Empty, Found } from '../../parts/states.tsx'
import { Attention } from './attention.tsx'
import { Figures, OverviewCharts } from './charts.tsx'
import { callsQuery, commandOf, type Overview, overviewQuery } from './overview-data.ts'
import { Callers, Causes, FailingTools } from './tables.tsx'
import { words } from './words.ts'
import './overview.css'

/*
 * The page that shows how things go on the server. The router opens it, first for operators. Without its scope it sends no requests.
 */

const SCOPE = 'admin:calls'

/** How things go on the server. */
export function OverviewPage(): ReactNode {
  const maySee = holdsScope(useSession()?.principal, SCOPE)
  if (maySee) return <OverviewOfCalls />
  return (
    <Page title={words.title}>
      <NeedsScope scope={SCOPE} />
    </Page>
  )
}

function OverviewOfCalls(): ReactNode {
  const [range, setRange] = useTimeRange('24h')
  const query = useQuery(overviewQuery(range))
  usePageCommand(commandOf(range))
  return (
    <Page title={words.title}>
      <div className="sections overview">
        <div className="range-row">
          <RangePicker range={range} onChange={setRange} />
          <Link className="btn sm" to="/calls" search={callsQuery(range)}>
            {words.showCalls}
          </Link>
        </div>
        <Found query={query} what={words.what}>
          {(overview) => <Content {...{ overview, range, setRange }} />}
        </Found>
      </div>
    </Page>
  )
}

interface ContentProps {
  readonly overview: Overview
  readonly range: TimeRange
  readonly setRange: (range: TimeRange) => void
}

function Content({ overview, range, setRange }: ContentProps): ReactNode {
  const { calls, rejected, attention } = overview
  if (calls === 0 && rejected === 0)
    return (
      <>
        <Attention attention={attention} />
        <Empty
          title={words.noCalls}
          actions={
            <Link className="btn" to="/settings">
              {words.connect}
            </Link>
          }
        >
          {words.noCallsHint}
        </Empty>
      </>
    )
  return (
    <>
      <Figures overview={overview} />
      <div className="beside">
        <div className="stack">
          <Attention attention={attention} />
          <Causes rejections={overview.rejections} range={range} />
        </div>
        <OverviewCharts {...{ overview, setRange }} />
      </div>
      <div className="pair">
        <FailingTools tools={overview.failing_tools} range={range} />
        <Callers callers={overview.callers} range={range} />
      </div>
    </>
  )
}
