import './styles/tokens.css'
import './styles/base.css'
import './styles/frame.css'
import './styles/controls.css'
import './styles/fields.css'
import './styles/meaning.css'
import './styles/lists.css'
import './styles/sections.css'
import './styles/code.css'
import './styles/plots.css'
import './styles/states.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from './api/queries.ts'
import { reloadRestoredPages } from './api/session.ts'
import { takeTokenFromAddress } from './api/session-token.ts'
import { router } from './app/router.tsx'
import { listenToKeys } from './keyboard.ts'

/*
 * Starts the console: its queries, its router and its keyboard shortcuts. The server's page loads this module first.
 */

takeTokenFromAddress()
listenToKeys()
reloadRestoredPages()
const root = document.getElementById('console')
if (root === null) throw new Error('index.html has no element "console"')
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)
