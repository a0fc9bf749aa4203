from sweeps.cli.app import main

main()
