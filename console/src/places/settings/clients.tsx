import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { serverQuery } from '../../api/server.ts'
import { Section } from '../../app/page.tsx'
import { ClientChoice, ClientText, Endpoints } from '../../parts/connect/clients.tsx'
import { Field, Select } from '../../parts/field.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Empty, Found } from '../../parts/states.tsx'
import { WORDS } from './words.tsx'

/*
 * Endpoints and client configurations, for all tools or for a toolset. `page.tsx` uses it.
 */

const EVERYTHING = { value: '', label: 'everything' }

/** Endpoints, and configuration for each client, for all tools or for a toolset. */
export function Clients({ onCommand }: { readonly onCommand: (command: string) => void }): ReactNode {
  const [chosen, setChosen] = useState('claude-code')
  const [toolset, setToolset] = useState('')
  const server = useQuery(serverQuery(toolset))
  const echo = (client: string, set: string): void => onCommand(connectCommand(client, set))
  return (
    <Section id="clients" title={WORDS.connectClient} onEnter={() => echo(chosen, toolset)}>
      <Found query={server} what={WORDS.endpoints}>
        {({ protocols, toolsets, clients, needs_key }) => {
          const client = clients.find(({ name }) => name === chosen) ?? clients[0]
          return (
            <div className="pair">
              <div className="stack-3">
                <Endpoints endpoints={protocols} />
                {toolsets.length > 0 && (
                  <>
                    <h3 className="label">{WORDS.toolsetsOverMcp}</h3>
                    <Endpoints endpoints={toolsets.map(({ name, url }) => ({ name, title: name, url }))} />
                  </>
                )}
              </div>
              <div className="stack-3">
                {client !== undefined && (
                  <ClientChoice
                    clients={clients}
                    value={client.name}
                    onChange={(name) => {
                      setChosen(name)
                      echo(name, toolset)
                    }}
                  />
                )}
                {toolsets.length > 0 && (
                  <Field label={WORDS.connect}>
                    {(control) => (
                      <Select
                        {...control}
                        options={[EVERYTHING, ...toolsets.map(({ name }) => ({ value: name }))]}
                        value={toolset}
                        onChange={(event) => {
                          setToolset(event.currentTarget.value)
                          echo(chosen, event.currentTarget.value)
                        }}
                      />
                    )}
                  </Field>
                )}
                {client === undefined ? (
                  <Empty title={WORDS.mcpTurnedOff}>{WORDS.clientsConnectOverMcpEnable}</Empty>
                ) : (
                  <ClientText client={client} />
                )}
                {needs_key && client !== undefined && (
                  <Note icon="key">{WORDS.thisServerRequiresKeyCreate}</Note>
                )}
              </div>
            </div>
          )
        }}
      </Found>
    </Section>
  )
}

const LIBRARIES: ReadonlySet<string> = new Set(['ai-sdk', 'langchain'])

/** Libraries have no config file that a command could write. */
function connectCommand(client: string, toolset: string): string {
  const known = LIBRARIES.has(client) ? 'inspector' : client
  return `collet connect ${known}${toolset === '' ? '' : ` --toolset ${toolset}`}`
}
