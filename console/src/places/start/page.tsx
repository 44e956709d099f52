import { useQuery } from '@tanstack/react-query'
import { Navigate, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useCallback, useState } from 'react'
import { onboardingQuery, serverQuery } from '../../api/server.ts'
import { holdsServerScope, useSession } from '../../api/session.ts'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { landingFor, type PagePath } from '../../app/pages.ts'
import { Button } from '../../parts/button.tsx'
import { Endpoints } from '../../parts/connect/clients.tsx'
import { countOf } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { firstToolQuery } from './first-tool.ts'
import { rememberStart, startState } from './start-state.ts'
import { AddStep, AgentStep, PermissionList } from './steps.tsx'
import { TryStep } from './try-step.tsx'
import './start.css'
import { WORDS } from './words.tsx'

/*
 * The start page: three steps for a new server. The router loads it. Others go to the page that is first for their credential.
 */

const REFETCH_MS = 2_000

/** Three steps for a new server. Where calls were made, or the steps dismissed, people see their first page instead. */
export function StartPage(): ReactNode {
  const [before] = useState(startState)
  const onboarding = useQuery({ ...onboardingQuery, refetchInterval: REFETCH_MS })
  const [wasCalled, setWasCalled] = useState<boolean>()
  const session = useSession()
  if (session === undefined) return null
  const landing = landingFor(session)
  // The steps are for people who set a server up or call its tools; approvers and auditors have a page of their own.
  const maySetUp = landing === '/tools' || holdsServerScope(session.principal, 'admin:sources')
  if (!maySetUp || before === 'dismissed') return <Navigate to={landing} replace />
  if (onboarding.data === undefined)
    return (
      <Page title={WORDS.start}>
        {onboarding.error === null ? (
          <Loading what={WORDS.firstSteps} />
        ) : (
          <Failed
            what={WORDS.stateServerCouldNotBe}
            error={onboarding.error}
            onRetry={() => void onboarding.refetch()}
          />
        )}
      </Page>
    )
  // Calls made on this page do not count, so the first answer is kept.
  if (wasCalled === undefined) setWasCalled(onboarding.data.has_calls)
  if (wasCalled === true && before === 'new') return <Navigate to={landing} replace />
  return <Steps hasTried={onboarding.data.has_calls} onboarding={onboarding.data} landing={landing} />
}

interface StepsProps {
  /** The page that follows the steps. */
  readonly landing: PagePath
  readonly hasTried: boolean
  readonly onboarding: Parameters<typeof AgentStep>[0]['onboarding']
}

function Steps({ hasTried, onboarding, landing }: StepsProps): ReactNode {
  const navigate = useNavigate()
  const [command, setCommand] = useState('collet tools')
  const [isTried, setTried] = useState(hasTried)
  usePageCommand(command)
  const tried = useCallback(() => {
    setTried(true)
    rememberStart('started')
  }, [])
  const leave = (): void => {
    rememberStart('dismissed')
    void navigate({ to: landing })
  }
  const hasSources = useQuery(firstToolQuery).data?.hasSources === true
  const hasAgent = onboarding.agent_call !== null
  const now = isTried ? (hasSources ? 3 : 2) : 1
  return (
    <Page
      title={WORDS.start}
      sub={WORDS.threeStepsAboutMinute}
      actions={
        <Button kind="quiet" onClick={leave}>
          {isTried && hasAgent ? WORDS.finish : WORDS.skipTheseSteps}
        </Button>
      }
    >
      <div className="start">
        <ol className="walk">
          <Step nth={1} now={now} title={WORDS.tryTool} isDone={isTried}>
            <TryStep isDone={isTried} onCommand={setCommand} onDone={tried} />
          </Step>
          <Step nth={2} now={now} title={WORDS.addSource} isDone={hasSources}>
            <AddStep isNow={now === 2} onCommand={setCommand} />
          </Step>
          <Step nth={3} now={now} title={WORDS.connectAgent} isDone={hasAgent}>
            <AgentStep onboarding={onboarding} onCommand={setCommand} />
          </Step>
        </ol>
        <Aside />
      </div>
    </Page>
  )
}

interface StepProps {
  readonly nth: number
  /** The current step. */
  readonly now: number
  readonly title: string
  readonly isDone: boolean
  readonly children: ReactNode
}

function Step({ nth, now, title, isDone, children }: StepProps): ReactNode {
  const isNow = nth === now && !isDone
  return (
    <li
      className={['walk-step', isDone ? 'done' : '', isNow ? 'now' : ''].join(' ').trim()}
      aria-current={isNow ? 'step' : undefined}
    >
      <span className="walk-n" aria-hidden="true">
        {isDone ? <Icon name="check" size={14} /> : nth}
      </span>
      <div>
        <h2>
          {title}
          {isDone && <span className="vh"> {WORDS.done}</span>}
        </h2>
        {children}
      </div>
    </li>
  )
}

/** The server: address, store, tools, protocols, and the permissions of this person. */
function Aside(): ReactNode {
  const { data: server } = useQuery(serverQuery())
  const { data: found } = useQuery(firstToolQuery)
  if (server === undefined) return <Loading what={WORDS.server} rows={4} />
  return (
    <aside className="have" aria-labelledby="have-h">
      <h2 id="have-h">{WORDS.runningHere}</h2>
      <dl className="kv">
        <dt>{WORDS.address}</dt>
        <dd className="mono clip">{server.url.replace(/^https?:\/\//, '')}</dd>
        <dt>{WORDS.store}</dt>
        <dd>{server.store}</dd>
        <dt>{WORDS.tools}</dt>
        <dd>{found === undefined ? '' : countOf(found.count, 'tool')}</dd>
      </dl>
      <h2>{protocolsTitle(server.protocols.length)}</h2>
      <Endpoints endpoints={server.protocols} isShort />
      <h2>{WORDS.permissions}</h2>
      <PermissionList server={server} />
    </aside>
  )
}

/** The number of protocols varies, because the config can turn them off. */
function protocolsTitle(count: number): string {
  return count > 1 ? WORDS.protocolsSameTools(NUMBERS[count] ?? count) : WORDS.protocol
}

const NUMBERS: Readonly<Record<number, string>> = { 2: WORDS.two, 3: WORDS.three, 4: WORDS.four }
