from sweeps.cli.main import main

main()
