import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './settings.css'

export function SettingsPage(): ReactNode {
  useEcho('collet doctor')
  return (
    <Page title="Settings">
      <Empty title="Settings come here" />
    </Page>
  )
}
