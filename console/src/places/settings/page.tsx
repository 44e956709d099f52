import { useLocation } from '@tanstack/react-router'
import { type ReactNode, useCallback, useEffect, useState } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { Appearance } from './appearance.tsx'
import { Clients } from './clients.tsx'
import { Limits, Usage } from './limits.tsx'
import { Config, Server } from './server.tsx'
import './settings.css'
import { WORDS } from './words.tsx'

/*
 * The page of settings. The router loads it. The terminal command belongs to the section in use.
 */

const PARTS = [
  { id: 'clients', name: WORDS.clients, scope: undefined },
  { id: 'limits', name: WORDS.limits2, scope: 'admin:calls' },
  { id: 'use', name: WORDS.usage2, scope: 'admin:calls' },
  { id: 'server', name: WORDS.server, scope: undefined },
  { id: 'appearance', name: WORDS.appearance, scope: undefined },
] as const

/** Clients, limits, usage, server and config. The terminal command belongs to the section in use. */
export function SettingsPage(): ReactNode {
  const [command, setCommand] = useState('collet connect')
  const [current, setCurrent] = useState<string>('clients')
  const principal = useSession()?.principal
  const parts = PARTS.filter(({ scope }) => scope === undefined || holdsScope(principal, scope))
  usePageCommand(command)
  const go = useCallback((id: string): void => {
    setCurrent(id)
    const part = document.getElementById(id)
    part?.scrollIntoView({ block: 'start' })
    part?.focus({ preventScroll: true })
  }, [])
  const { hash } = useLocation()
  useEffect(() => {
    if (hash !== '') go(hash)
  }, [hash, go])
  return (
    <Page
      title={WORDS.settings}
      actions={
        <nav className="tabs in-bar" aria-label={WORDS.onThisPage}>
          {parts.map(({ id, name }) => (
            <button
              key={id}
              type="button"
              aria-current={id === current ? 'true' : undefined}
              onClick={() => go(id)}
            >
              {name}
            </button>
          ))}
        </nav>
      }
    >
      <div className="sections">
        <Clients onCommand={setCommand} />
        <Limits onCommand={setCommand} />
        <Usage onCommand={setCommand} />
        <div className="pair">
          <Server onCommand={setCommand} />
          <Config onCommand={setCommand} />
        </div>
        <Appearance onCommand={setCommand} />
      </div>
    </Page>
  )
}
