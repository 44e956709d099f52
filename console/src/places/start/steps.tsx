import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { type Onboarding, type ServerAbout, serverQuery } from '../../api/server.ts'
import { holdsScope, holdsServerScope, type Principal, useSession } from '../../api/session.ts'
import { importCommand } from '../../app/commands.ts'
import { Command, CommandLine } from '../../app/page-command.tsx'
import { openDialog } from '../../app/pages.ts'
import { Button } from '../../parts/button.tsx'
import { ClientChoice, ClientText } from '../../parts/connect/clients.tsx'
import { formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note, StateMark, ToolName } from '../../parts/meaning.tsx'
import { Loading } from '../../parts/states.tsx'
import { WORDS } from './words.tsx'

/*
 * The steps that add a source and connect an agent, and the list of permissions. `page.tsx` uses it.
 */

const EXAMPLES = [
  [WORDS.openapiAddress, 'https://petstore3.swagger.io/api/v3/openapi.json'],
  [WORDS.mcpServerByUrl, 'https://example.com/mcp'],
  [WORDS.mcpServerByItsCommand, 'npx -y @modelcontextprotocol/server-everything'],
] as const

/** Takes the address of a source. Connections inspects it, and then adds it. */
export function AddStep({ isNow, onCommand }: AddStepProps): ReactNode {
  const navigate = useNavigate()
  const principal = useSession()?.principal
  const isSignedIn = principal != null
  const [target, setTarget] = useState('')
  const change = (text: string): void => {
    setTarget(text)
    onCommand(importCommand(text.trim() === '' ? 'TARGET' : text.trim()))
  }
  return (
    <>
      <p className="soft">{WORDS.pasteAddressMcpServerOr}</p>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault()
          void navigate({ to: '/sources', search: { add: target.trim() } })
        }}
      >
        <label className="vh" htmlFor="paste">
          {WORDS.addressFileOrCommand}
        </label>
        <input
          id="paste"
          className="input mono"
          autoComplete="off"
          spellCheck={false}
          placeholder={WORDS.sourceExample}
          value={target}
          onChange={(event) => change(event.currentTarget.value)}
          onFocus={() => change(target)}
        />
        <Button submits kind={isNow ? 'primary' : 'plain'}>
          {WORDS.inspect}
        </Button>
      </form>
      <p className="row meta dim eg">
        {WORDS.or(
          EXAMPLES.map(([label, text]) => (
            <button key={text} type="button" className="link plain" onClick={() => change(text)}>
              {label}
            </button>
          )),
        )}
      </p>
      <p className="soft">{WORDS.orImportAllMcpServers}</p>
      <CommandLine text="collet import --from" />
      {!isSignedIn && (
        <Note
          icon="lock"
          action={
            <Button isSmall onClick={() => openDialog.set('sign-in')}>
              {WORDS.signIn}
            </Button>
          }
        >
          {WORDS.addingSourceNeedsSignIn(<Command text="collet serve" />)}
        </Note>
      )}
      {isSignedIn && !holdsServerScope(principal, 'admin:sources') && (
        <Note icon="lock">{WORDS.yourCredentialCannotAddSources}</Note>
      )}
    </>
  )
}

interface AddStepProps {
  /** Whether it is the current step. */
  readonly isNow: boolean
  readonly onCommand: (command: string) => void
}

/** Configuration for the agent, and a notice when its first call arrives. */
export function AgentStep({ onboarding, onCommand }: AgentStepProps): ReactNode {
  const { data: server } = useQuery(serverQuery())
  const [chosen, setChosen] = useState('claude-code')
  if (server === undefined) return <Loading what={WORDS.clients} rows={2} />
  const client = server.clients.find(({ name }) => name === chosen) ?? server.clients[0]
  if (client === undefined) return <p className="soft">{WORDS.agentsConnectOverMcpWhich}</p>
  return (
    <>
      <ClientChoice
        clients={server.clients}
        value={client.name}
        onChange={(name) => {
          setChosen(name)
          onCommand(`collet connect ${name}`)
        }}
      />
      <ClientText client={client} />
      <Arrival onboarding={onboarding} />
    </>
  )
}

interface AgentStepProps {
  readonly onboarding: Onboarding
  readonly onCommand: (command: string) => void
}

function Arrival({ onboarding: { agent_call: call } }: { readonly onboarding: Onboarding }): ReactNode {
  const principal = useSession()?.principal
  // The server reports other people's calls only to people who may see calls.
  const seesOwnOnly = principal != null && !holdsScope(principal, 'admin:calls')
  if (call === null && seesOwnOnly)
    return (
      <p className="row meta dim wait">
        <Icon name="lock" size={14} />
        <span>{WORDS.callsFromAgentsAreShown}</span>
      </p>
    )
  if (call === null)
    return (
      <p className="row meta dim wait" role="status">
        <Icon name="running" size={14} className="is-running spin" />
        <span>{WORDS.waitingForFirstCallFrom}</span>
      </p>
    )
  return (
    <p className="row meta wait" role="status">
      <StateMark state="succeeded" label={WORDS.firstCallFromAgentArrived} />
      <ToolName name={call.tool} />
      <span className="dim num">{formatClock(call.at)}</span>
      <Link className="link" to="/calls/$record" params={{ record: call.record }}>
        {WORDS.seeInCalls}
      </Link>
    </p>
  )
}

/** The permissions of this person, one by one. */
export function PermissionList({ server }: { readonly server: ServerAbout }): ReactNode {
  const principal = useSession()?.principal
  return (
    <ul className="open">
      <PermissionItem
        name={WORDS.listingTryingTools(server.needs_key ? '' : WORDS.forEveryoneWhoCanReach)}
        isHeld
      />
      {PERMISSIONS.map(({ name, isHeldBy }) => (
        <PermissionItem key={name} name={name} isHeld={isHeldBy(principal)} isSignedIn={principal != null} />
      ))}
    </ul>
  )
}

const PERMISSIONS: readonly {
  readonly name: string
  readonly isHeldBy: (principal: Principal | null | undefined) => boolean
}[] = [
  { name: WORDS.addingSources, isHeldBy: (principal) => holdsServerScope(principal, 'admin:sources') },
  { name: WORDS.creatingKeys, isHeldBy: (principal) => holdsScope(principal, 'admin:keys') },
  { name: WORDS.decidingApprovals, isHeldBy: (principal) => holdsScope(principal, 'approvals:respond') },
  { name: WORDS.settlingCalls, isHeldBy: (principal) => holdsScope(principal, 'calls:settle') },
]

interface PermissionItemProps {
  readonly name: string
  readonly isHeld: boolean
  readonly isSignedIn?: boolean
}

function PermissionItem({ name, isHeld, isSignedIn = false }: PermissionItemProps): ReactNode {
  return (
    <li>
      <Icon name={isHeld ? 'check' : 'lock'} size={14} className={isHeld ? 'is-succeeded' : undefined} />
      <span>
        {name}
        {!isHeld && (isSignedIn ? WORDS.notAllowedByYourCredential : WORDS.requiresSignIn)}
      </span>
    </li>
  )
}
