import { type ReactNode, useState } from 'react'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { Clients } from './clients.tsx'
import { Journal } from './journal.tsx'
import { Keys } from './keys.tsx'
import { Limits, Usage } from './limits.tsx'
import { Config, Refusals, Server } from './server.tsx'
import './settings.css'

/*
 * The page of settings. The router loads it. The terminal command belongs to the section in use.
 */

const PARTS = [
  ['keys', 'Keys'],
  ['limits', 'Limits'],
  ['journal', 'Journal'],
  ['clients', 'Clients'],
  ['use', 'Usage'],
  ['refusals', 'Denied requests'],
  ['server', 'Server'],
] as const

/** Keys, limits, journal, clients, usage, denied requests and config. The terminal command belongs to the section in use. */
export function SettingsPage(): ReactNode {
  const [command, setCommand] = useState('collet keys list')
  const [current, setCurrent] = useState<string>('keys')
  usePageCommand(command)
  const go = (id: string): void => {
    setCurrent(id)
    const part = document.getElementById(id)
    part?.scrollIntoView({ block: 'start' })
    part?.focus({ preventScroll: true })
  }
  return (
    <Page
      title="Settings"
      actions={
        <nav className="tabs in-bar" aria-label="On this page">
          {PARTS.map(([id, name]) => (
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
        <Keys onCommand={setCommand} />
        <div className="pair">
          <Limits onCommand={setCommand} />
          <Journal onCommand={setCommand} />
        </div>
        <Clients onCommand={setCommand} />
        <Usage onCommand={setCommand} />
        <Refusals onCommand={setCommand} />
        <div className="pair">
          <Server onCommand={setCommand} />
          <Config onCommand={setCommand} />
        </div>
      </div>
    </Page>
  )
}
